#include <reef/comm/call_task.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/comm/progress.hpp>

namespace reef::test {

namespace {

using comm::CallTask;

TEST(CallTask, comes_between_what_stands_before_and_behind_it_in_its_queue) {
  const comm::Communicator world;
  comm::Progress progress(world);
  std::vector<double> first(1, 1.0);
  std::vector<double> second(1, 0.0);
  comm::AllReduceTask<double> before("before", std::span<double>(first), world.size());
  CallTask call("call", [&] { second[0] = first[0] + 1; });
  comm::AllReduceTask<double> behind("behind", std::span<double>(second), world.size());
  comm::Queue& queue = progress.queue("queue");
  for (int use = 0; use < 3; ++use) {
    first[0] = 1;
    progress.submit(queue, before);
    progress.submit(queue, call);
    progress.submit(queue, behind);
    progress.wait(behind);
    EXPECT_EQ(second[0], world.size() * (world.size() + 1.0));
  }
}

TEST(CallTask, that_takes_long_makes_nobody_silent_and_holds_up_no_other_queue) {
  const comm::Communicator world;
  comm::Progress progress(world, {.deadline = 3, .abort_on_deadline = false});
  std::atomic<bool> other_is_done{false};
  std::atomic<bool> went_on{false};
  const bool slow = world.rank() == world.size() - 1;
  CallTask call("source", [&] {
    if (!slow) return;
    if (world.size() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(4500));
    // Held up by this one it would never be.
    for (int tries = 0; tries < 3000 && !other_is_done; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    went_on = other_is_done.load();
  });
  std::vector<double> value(1, 1.0);
  comm::AllReduceTask<double> behind("behind", std::span<double>(value), world.size());
  progress.submit(progress.queue("slow"), call);
  progress.submit(progress.queue("slow"), behind);
  double other = 1;
  comm::all_reduce<double>(progress, "other", std::span<double>(&other, 1));
  other_is_done = true;
  progress.wait(behind);  // the others wait longer than the deadline
  EXPECT_EQ(value[0], world.size());
  EXPECT_EQ(other, world.size());
  EXPECT_TRUE(went_on || !slow);
}

TEST(CallTask, that_throws_fails_here_and_tells_the_others) {
  const comm::Communicator world;
  comm::Progress progress(world);
  const bool fails = world.rank() == world.size() - 1;
  CallTask call("source", [&] {
    if (fails) throw std::runtime_error("the disk is gone");
  });
  double value = 1;
  comm::AllReduceTask<double> behind("behind", std::span<double>(&value, 1), world.size());
  try {  // the news may be here before the second submit, which then throws it
    progress.submit(progress.queue("queue"), call);
    progress.submit(progress.queue("queue"), behind);
    progress.wait(behind);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("the disk is gone"), std::string::npos)
        << error.what();
  }
}

TEST(CallTask, that_runs_while_its_owner_gives_up_is_waited_for) {
  const comm::Communicator world;
  std::atomic<bool> runs{false};
  std::atomic<bool> leaves{false};
  std::atomic<bool> ended{false};
  const auto give_up = [&] {
    comm::Progress progress(world, {.abort_on_deadline = false});
    CallTask call("source", [&] {
      runs = true;
      while (!leaves) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ended = true;
    });
    progress.submit(progress.queue("queue"), call);
    while (!runs) std::this_thread::yield();
    MPI_Barrier(MPI_COMM_WORLD);  // who fails first would keep the others' calls from starting
    leaves = true;
    throw std::runtime_error("enough");
  };
  EXPECT_THROW(give_up(), std::runtime_error);
  EXPECT_TRUE(ended);
}

}  // namespace

}  // namespace reef::test
