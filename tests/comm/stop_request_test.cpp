#include <reef/comm/stop_request.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace reef;

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

using Signalled = comm::detail::Signalled;

/// Raises it and lets its handler run: ThreadSanitizer puts handlers off, in a child of several
/// threads, until the next atomic operation.
void raise_now(int signal) {
  ::raise(signal);
  Signalled::first.load();
}

/// As if what has come so far had come a minute ago.
void a_minute_later() {
  for (auto* const time : {&Signalled::from_anybody, &Signalled::from_launcher}) {
    if (time->load() != 0) time->fetch_sub(60'000'000'000);
  }
}
/// As if what has come so far came at the same time as what follows, however slow this machine is.
void in_that_moment() {
  for (auto* const time : {&Signalled::from_anybody, &Signalled::from_launcher}) {
    if (time->load() != 0) time->fetch_add(60'000'000'000);
  }
}
/// As the launcher sends it.
void pass_on(int signal) {
  ::siginfo_t info{};
  info.si_code = SI_USER;
  info.si_pid = ::getppid();
  Signalled::handle(signal, &info, nullptr);
}

TEST(StopRequest, takes_each_of_its_signals_and_a_second_one_ends_at_once) {
  for (const int first : Signalled::numbers) {
    for (const int second : Signalled::numbers) {
      const int status = ending_of([&] {
        ::signal(SIGHUP, SIG_DFL);  // also where this test runs under nohup
        const comm::StopRequest stop;
        raise_now(first);
        if (stop.signal() != first) ::_exit(1);
        a_minute_later();
        raise_now(second);
      });
      ASSERT_TRUE(WIFSIGNALED(status)) << first << ", " << second << ": " << WEXITSTATUS(status);
      EXPECT_EQ(WTERMSIG(status), second);
    }
  }
}

TEST(StopRequest, heeds_the_end_of_its_terminal_unless_that_was_ignored_when_it_began) {
  EXPECT_THAT(Signalled::numbers, testing::Contains(SIGHUP));
  const int status = ending_of([] {
    ::signal(SIGHUP, SIG_IGN);  // as nohup does
    {
      const comm::StopRequest stop;
      raise_now(SIGHUP);
      if (stop.asked()) ::_exit(1);
    }
    raise_now(SIGHUP);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(StopRequest, what_comes_twice_at_once_is_one_event) {
  const int status = ending_of([] {
    const comm::StopRequest stop;
    raise_now(SIGTERM);
    in_that_moment();
    raise_now(SIGTERM);
    pass_on(SIGTERM);
    if (stop.signal() != SIGTERM) ::_exit(1);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(StopRequest, what_the_launcher_passes_on_later_of_a_signal_to_the_whole_job_is_no_second_one) {
  const int status = ending_of([] {
    const comm::StopRequest stop;
    raise_now(SIGTERM);
    a_minute_later();
    pass_on(SIGTERM);
    if (stop.signal() != SIGTERM) ::_exit(1);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(StopRequest, a_second_one_ends_at_once_whoever_sends_both_and_after_the_launcher_too) {
  const int twice = ending_of([] {
    const comm::StopRequest stop;
    pass_on(SIGINT);
    a_minute_later();
    pass_on(SIGINT);
  });
  ASSERT_TRUE(WIFSIGNALED(twice)) << "Ctrl-C, passed on by the launcher";
  const int after = ending_of([] {
    const comm::StopRequest stop;
    pass_on(SIGTERM);
    a_minute_later();
    raise_now(SIGINT);
  });
  ASSERT_TRUE(WIFSIGNALED(after));
}

TEST(StopRequest, the_parent_process_is_who_passes_on) {
  const int status = ending_of([] {
    const comm::StopRequest stop;
    raise_now(SIGUSR1);
    a_minute_later();
    const ::pid_t parent = ::getpid();
    const ::pid_t child = ::fork();
    if (child == 0) {  // which is no launcher of the one that is signalled
      ::kill(parent, SIGTERM);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    Signalled::first.load();  // as in raise_now
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  // The launcher of this child is the process of this test.
  const ::pid_t child = ::fork();
  if (child == 0) {
    const comm::StopRequest stop;
    raise_now(SIGUSR1);
    a_minute_later();
    ::raise(SIGSTOP);  // until the parent has sent what waits for it
    ::_exit(Signalled::from_launcher.load() != 0 && stop.signal() == SIGUSR1 ? 7 : 1);
  }
  int ending = 0;
  ::waitpid(child, &ending, WUNTRACED);
  ASSERT_TRUE(WIFSTOPPED(ending));
  ::kill(child, SIGTERM);
  ::kill(child, SIGCONT);
  ::waitpid(child, &ending, 0);
  ASSERT_TRUE(WIFEXITED(ending));
  EXPECT_EQ(WEXITSTATUS(ending), 7);
}

TEST(StopRequest, is_one_at_a_time_and_gives_the_signals_back) {
  // MPICH has a handler of its own.
  struct ::sigaction before {};
  ::sigaction(SIGUSR1, nullptr, &before);
  {
    const comm::StopRequest stop;
    EXPECT_THROW(comm::StopRequest(), OptionError);
    raise_now(SIGUSR1);
  }
  struct ::sigaction after {};
  ::sigaction(SIGUSR1, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  const comm::StopRequest again;
  EXPECT_FALSE(again.asked());
}

}  // namespace
