#include <reef/comm/stop_request.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace {

using namespace reef;
using namespace std::chrono_literals;

TEST(StopRequest, a_signal_to_one_rank_is_known_to_all_at_the_same_call) {
  const comm::StopRequest stop;
  comm::Progress progress{comm::ProgressOptions{}};
  EXPECT_FALSE(stop.agree(progress));
  if (progress.rank() == progress.size() - 1) ::raise(SIGUSR1);
  EXPECT_EQ(stop.signal(), progress.rank() == progress.size() - 1 ? SIGUSR1 : 0);
  EXPECT_TRUE(stop.agree(progress));
  EXPECT_TRUE(stop.agree(progress));
}

/// How a process ends that does this.
template <class F>
int ending_of(const F& work) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(StopRequest, takes_each_of_its_signals_and_a_second_one_ends_at_once) {
  for (const int first : {SIGINT, SIGTERM, SIGUSR1}) {
    for (const int second : {SIGINT, SIGTERM, SIGUSR1}) {
      const int status = ending_of([&] {
        const comm::StopRequest stop;
        ::raise(first);
        if (stop.signal() != first) ::_exit(1);
        std::this_thread::sleep_for(60ms);
        ::raise(second);
      });
      ASSERT_TRUE(WIFSIGNALED(status)) << first << ", " << second << ": " << WEXITSTATUS(status);
      EXPECT_EQ(WTERMSIG(status), second);
    }
  }
}

TEST(StopRequest, what_comes_twice_at_once_is_one_event) {
  const int status = ending_of([] {
    const comm::StopRequest stop;
    ::raise(SIGTERM);
    ::raise(SIGTERM);
    if (stop.signal() != SIGTERM) ::_exit(1);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(StopRequest, is_one_at_a_time_and_gives_the_signals_back) {
  // MPICH has a handler of its own.
  struct ::sigaction before {};
  ::sigaction(SIGUSR1, nullptr, &before);
  {
    const comm::StopRequest stop;
    EXPECT_THROW(comm::StopRequest(), OptionError);
    ::raise(SIGUSR1);
  }
  struct ::sigaction after {};
  ::sigaction(SIGUSR1, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  const comm::StopRequest again;
  EXPECT_FALSE(again.asked());
}

}  // namespace
