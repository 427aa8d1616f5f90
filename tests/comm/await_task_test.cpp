#include <reef/comm/await_task.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/call_task.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/progress.hpp>

namespace reef::test {

namespace {

using comm::AwaitTask;

TEST(AwaitTask, holds_up_its_queue_until_another_thread_completes_it_and_no_other_work) {
  const comm::Communicator world;
  comm::Progress progress(world);
  AwaitTask task("answer");
  std::atomic<bool> may{false};
  for (int use = 0; use < 3; ++use) {
    may = false;
    std::atomic<bool> called_behind{false};
    comm::CallTask behind("behind", [&] { called_behind = true; });
    progress.submit(progress.queue("held"), task);
    progress.submit(progress.queue("held"), behind);
    std::jthread other([&, completion = task.completion()] {
      while (!may) std::this_thread::yield();
      completion.complete();
    });
    bool called = false;
    comm::CallTask call("call", [&] { called = true; });  // on the thread of calls, which nobody occupies
    progress.run(progress.queue("free"), call);
    double one = 1;
    comm::all_reduce<double>(progress, "one", std::span<double>(&one, 1));
    EXPECT_EQ(one, world.size());
    EXPECT_TRUE(called);
    EXPECT_FALSE(task.complete());
    EXPECT_FALSE(called_behind);
    may = true;
    progress.wait(behind);
    EXPECT_TRUE(task.complete());
    EXPECT_TRUE(called_behind);
  }
}

TEST(AwaitTask, what_completes_it_before_it_starts_counts_once) {
  comm::Progress progress(comm::Communicator::alone());
  AwaitTask task("early");
  task.completion().complete();
  task.completion().complete();
  progress.run(progress.queue("queue"), task);
  EXPECT_TRUE(task.complete());
  progress.submit(progress.queue("queue"), task);
  comm::CallTask call("call", [] {});
  progress.run(progress.queue("other"), call);
  EXPECT_FALSE(task.complete());
  task.completion().complete();
  progress.wait(task);
}

TEST(AwaitTask, that_fails_makes_progress_unusable_with_its_exception) {
  comm::Progress progress(comm::Communicator::alone());
  AwaitTask task("answer");
  progress.submit(progress.queue("queue"), task);
  task.completion().fail(std::make_exception_ptr(std::runtime_error("the peer is gone")));
  const auto says = testing::Property(&std::exception::what, testing::HasSubstr("the peer is gone"));
  EXPECT_THAT([&] { progress.wait(task); }, testing::Throws<std::exception>(says));
  comm::CallTask call("call", [] {});
  EXPECT_THROW(progress.submit(progress.queue("other"), call), std::exception);
}

TEST(AwaitTask, outlived_by_its_completion_leaves_that_without_effect) {
  std::optional<AwaitTask::Completion> completion;
  {
    comm::Progress progress(comm::Communicator::alone());
    AwaitTask task("answer");
    completion = task.completion();
    progress.submit(progress.queue("queue"), task);
    completion->complete();
    progress.wait(task);
  }
  completion->complete();
  completion->fail(std::make_exception_ptr(std::runtime_error("late")));
}

TEST(AwaitTask, that_goes_in_flight_takes_progress_with_it_and_blocks_nobody) {
  comm::Progress progress(comm::Communicator::alone());
  auto task = std::make_unique<AwaitTask>("answer");
  const AwaitTask::Completion completion = task->completion();
  progress.submit(progress.queue("queue"), *task);
  task.reset();
  completion.complete();
  comm::CallTask call("call", [] {});
  EXPECT_THROW(progress.run(progress.queue("other"), call), std::exception);
}

}  // namespace

}  // namespace reef::test
