#include <reef/comm/progress.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <comm/reference.hpp>
#include <reef/comm/call_task.hpp>
#include <reef/comm/detail/clock.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/mpi.hpp>
#include <support/no_more_threads.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using testing::HasSubstr;

/// How collectives travel.
struct Way {
  const char* name;
  Transport transport;
  bool read_peers = true;

  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};

ProgressOptions patient(const Way& way) {
  ProgressOptions options;
  options.deadline = 40;
  options.heartbeat = 0.05;  // a rank without a task hears of a failure so soon
  options.transport = way.transport;
  options.read_peers = way.read_peers;
  return options;
}

/// What submitting the task and waiting for it say when they fail; "" if they do not. Where another
/// rank fails, its news may be here before the task is submitted.
std::string failure_of(Progress& progress, Task& task, std::function<void()> completed = {}) {
  try {
    progress.submit(progress.queue("q"), task, {}, std::move(completed));
    progress.wait(task);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

struct ProgressThread : testing::TestWithParam<Way> {
  Communicator world;
};

TEST_P(ProgressThread, a_callback_that_would_wait_for_itself_is_refused) {
  for (const bool runs : {true, false}) {
    Progress progress(world, patient(GetParam()));
    CallTask other("other", [] {});
    CallTask task("task", [] {});
    const auto completed = [&] {
      if (runs) {
        progress.run(progress.queue("q2"), other);
      } else {
        progress.submit(progress.queue("q2"), other);
        progress.wait(other);
      }
    };
    const std::string text = failure_of(progress, task, completed);
    EXPECT_THAT(text, HasSubstr(runs ? "Progress::run: called in a callback"
                                     : "Progress::wait: called in a callback"));
  }
}

TEST_P(ProgressThread, a_task_starts_when_it_is_ready_and_says_when_it_is_complete) {
  Progress progress(world, patient(GetParam()));
  std::vector<float> data(100, 1);
  AllReduceTask<float> task("gated", std::span(data), world.size());
  std::atomic<bool> open{false};
  std::atomic<bool> called{false};
  progress.submit(
      progress.queue("q"), task, [&] { return open.load(); }, [&] { called = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(task.in_flight());
  EXPECT_FALSE(called);
  EXPECT_EQ(data[0], 1.0F);
  open = true;
  progress.wait(task);
  EXPECT_TRUE(called);
  EXPECT_TRUE(task.complete());
  EXPECT_EQ(data, std::vector<float>(100, static_cast<float>(world.size())));
}

TEST_P(ProgressThread, a_task_that_is_told_starts_when_it_is_woken) {
  Progress progress(world, patient(GetParam()));
  std::vector<float> data(100, 1);
  AllReduceTask<float> task("told", std::span(data), world.size());
  std::atomic<bool> open{false};
  std::atomic<int> asked{0};
  const auto ready = [&] {
    ++asked;
    return open.load();
  };
  constexpr int rounds = 3;
  for (int i = 1; i <= rounds; ++i) {
    open = false;
    asked = 0;
    const std::int64_t begin = comm::detail::now_ns();
    progress.submit(progress.queue("q"), task, ready, {}, Readiness::told);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const int looks = asked;
    // Every 4 ms at the most, and by whom else it is woken, by signs of life too; polled, every 50 us at first.
    const Seconds waited = comm::detail::to_seconds(comm::detail::now_ns() - begin);
    EXPECT_LT(looks, waited / 4e-3 + world.size() * waited / patient(GetParam()).heartbeat + 15);
    open = true;
    progress.wake();
    progress.wait(task);
  }
  EXPECT_EQ(data[0], static_cast<float>(std::pow(world.size(), rounds)));
}

/// Not woken it naps for 4 ms, never less: looks that are closer together are those of a wake(). On a busy machine not each
/// wake is answered so soon, but one of thousands is.
TEST_P(ProgressThread, looks_when_it_is_woken_and_not_when_its_nap_is_over) {
  ProgressOptions options = patient(GetParam());
  options.heartbeat = 10;  // which ends naps, too
  Progress progress(world, options);
  std::vector<float> data(100, 1);
  AllReduceTask<float> task("told", std::span(data), world.size());
  std::atomic<bool> open{false};
  std::atomic<std::int64_t> looked{0};
  const auto ready = [&] {
    looked = comm::detail::now_ns();
    return open.load();
  };
  progress.submit(progress.queue("q"), task, ready, {}, Readiness::told);
  const auto look_behind = [&](std::int64_t before) {
    while (looked == before) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return looked.load();
  };
  look_behind(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until submit() has had its own look
  std::int64_t last = looked;
  std::int64_t closest = comm::detail::never_ns;
  int wakes = 0;
  const std::int64_t begin = comm::detail::now_ns();
  while (closest > comm::detail::to_ns(2e-3) && last - begin < comm::detail::to_ns(10)) {
    progress.wake();
    ++wakes;
    const std::int64_t next = look_behind(last);
    closest = std::min(closest, next - last);
    last = next;
  }
  EXPECT_LT(closest, comm::detail::to_ns(2e-3))
      << "ns from one look to the next, the least of " << wakes << " that followed a wake()";
  open = true;
  progress.wake();
  progress.wait(task);
}

#if defined(__GLIBC__)
TEST_P(ProgressThread, that_cannot_be_made_is_an_error_that_all_ranks_hear_of_at_once) {
  const bool last = world.rank() == world.size() - 1;
  std::string text;
  try {
    std::optional<reef::test::NoMoreThreads> now;
    if (last) now.emplace();
    Progress progress(world, patient(GetParam()));
    now.reset();
    std::vector<float> data(10, 1);
    all_reduce(progress, "never", std::span(data));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("the progress thread gets no thread: "));
  EXPECT_EQ(text.find(" reported: ") != std::string::npos, !last);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_P(ProgressThread, whose_thread_of_calls_cannot_be_made_says_so) {
  std::string text;
  const auto call = [&] {
    Progress progress(world, patient(GetParam()));
    CallTask task("call", [] {});
    const reef::test::NoMoreThreads now;
    text = failure_of(progress, task);
  };
  call();
  EXPECT_THAT(text, HasSubstr("the thread of calls gets no thread: "));
}
#endif

TEST_P(ProgressThread, a_queue_keeps_its_order) {
  Progress progress(world, patient(GetParam()));
  std::vector<double> data(10, 1);
  std::vector<int> order;
  std::vector<std::unique_ptr<AllReduceTask<double>>> tasks;
  for (int i = 0; i < 20; ++i) {
    tasks.push_back(std::make_unique<AllReduceTask<double>>("t" + std::to_string(i),
                                                            std::span(data), world.size()));
    progress.submit(progress.queue("q"), *tasks.back(), {}, [&order, i] { order.push_back(i); });
  }
  progress.wait_all();
  std::vector<int> expected(20);
  for (int i = 0; i < 20; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(order, expected);
}

TEST_P(ProgressThread, completion_may_submit_the_next_task) {
  Progress progress(world, patient(GetParam()));
  std::vector<float> data(10, 1);
  AllReduceTask<float> first("first", std::span(data), world.size());
  AllReduceTask<float> second("second", std::span(data), world.size());
  progress.submit(progress.queue("q"), first, {},
                  [&] { progress.submit(progress.queue("q"), second); });
  progress.wait(first);
  progress.wait(second);
  EXPECT_EQ(data[0], static_cast<float>(world.size() * world.size()));
}

TEST_P(ProgressThread, a_task_in_flight_is_not_taken_twice) {
  Progress progress(world, patient(GetParam()));
  std::vector<float> data(10, 1);
  AllReduceTask<float> task("twice", std::span(data), world.size());
  std::atomic<bool> open{false};
  progress.submit(progress.queue("q"), task, [&] { return open.load(); });
  EXPECT_THROW(progress.submit(progress.queue("q"), task), OptionError);
  open = true;
  progress.wait(task);
}

TEST_P(ProgressThread, different_operations_at_the_same_place_are_both_named) {
  if (world.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  Progress progress(world, patient(GetParam()));
  std::vector<float> data(64, 1);
  const bool odd = world.rank() == world.size() - 1;
  AllReduceTask<float> task(odd ? "norm" : "loss", std::span(data), world.size());
  const std::string text = failure_of(progress, task);
  EXPECT_THAT(text, HasSubstr("do not do the same thing"));
  EXPECT_THAT(text, HasSubstr("all-reduce 'loss' number 0"));
  EXPECT_THAT(text, HasSubstr("'norm' number 0"));
  EXPECT_THROW(progress.submit(progress.queue("q"), task), MpiError);
}

TEST_P(ProgressThread, a_larger_array_on_one_rank_is_refused_and_nothing_is_overwritten) {
  if (world.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  Progress progress(world, patient(GetParam()));
  const bool odd = world.rank() == world.size() - 1;
  const std::size_t n = odd ? 4096 : 64;
  std::vector<float> data(n + 1000, -7);
  AllReduceTask<float> task("loss", std::span(data).first(n), world.size());
  EXPECT_THAT(failure_of(progress, task), HasSubstr("all-reduce 'loss' number 0"));
  for (std::size_t i = n; i < data.size(); ++i) EXPECT_EQ(data[i], -7.0F);
}

TEST_P(ProgressThread, a_receive_of_another_size_is_refused_and_nothing_is_overwritten) {
  if (world.size() == 1) GTEST_SKIP() << "nobody to receive from";
  Progress progress(world, patient(GetParam()));
  std::vector<float> data(2000, -7);
  std::string text;
  if (world.rank() == 0) {
    SendTask send("activation", 1, std::span(data));
    text = failure_of(progress, send);
    // Its own send may have left before the news came.
    if (text.empty()) {
      ReceiveTask never("never", 1, std::span(data));
      text = failure_of(progress, never);
    }
  } else if (world.rank() == 1) {
    ReceiveTask receive("activation", 0, std::span(data).first(500));
    text = failure_of(progress, receive);
    for (std::size_t i = 500; i < data.size(); ++i) EXPECT_EQ(data[i], -7.0F);
  } else {
    ReceiveTask receive("never", 0, std::span(data));
    text = failure_of(progress, receive);
  }
  EXPECT_THAT(text, HasSubstr("transfer 'activation' number 0"));
}

TEST_P(ProgressThread, what_a_callback_throws_comes_out_of_wait) {
  Progress progress(world, patient(GetParam()));
  std::vector<float> data(10, 1);
  AllReduceTask<float> task("thrown", std::span(data), world.size());
  const auto thrower = [] { throw std::domain_error("no such number"); };
  EXPECT_THAT(failure_of(progress, task, thrower), HasSubstr("no such number"));
}

TEST_P(ProgressThread, a_task_that_dies_in_flight_ends_the_progress_object_not_the_memory) {
  Progress progress(world, patient(GetParam()));
  std::vector<float> data(10, 1);
  try {
    AllReduceTask<float> task("dying", std::span(data), world.size());
    progress.submit(progress.queue("q"), task, [] { return false; });
  } catch (const MpiError&) {
    // Another rank's task died first, and this one was told.
  }
  AllReduceTask<float> next("next", std::span(data), world.size());
  EXPECT_THROW(progress.submit(progress.queue("q"), next), MpiError);
}

TEST_P(ProgressThread, an_exception_that_ends_one_rank_reaches_all) {
  if (world.size() == 1) GTEST_SKIP() << "nobody to tell";
  std::vector<float> data(10, 1);
  if (world.rank() == 0) {
    EXPECT_THROW(
        {
          Progress progress(world, patient(GetParam()));
          throw std::runtime_error("out of data");
        },
        std::runtime_error);
  } else {
    Progress progress(world, patient(GetParam()));
    AllReduceTask<float> task("orphan", std::span(data), world.size());
    EXPECT_THAT(failure_of(progress, task),
                HasSubstr("rank 0 reported: it was ended by an exception"));
  }
}

TEST_P(ProgressThread, a_missed_deadline_can_be_caught) {
  if (world.size() == 1) GTEST_SKIP() << "nobody to miss";
  ProgressOptions options = patient(GetParam());
  options.operation_deadline = 0.25;  // which rank 0 alone misses, and not its signs of life
  options.abort_on_deadline = false;
  std::atomic<int> failures{0};
  options.on_failure = [&](const std::string&) { ++failures; };
  Progress progress(world, options);
  std::vector<float> data(10, 1);
  AllReduceTask<float> task("lonely", std::span(data), world.size());
  if (world.rank() != 0) {
    const std::string text = failure_of(progress, task);
    EXPECT_THAT(text, HasSubstr("all-reduce 'lonely' number 0"));
    EXPECT_THAT(text, HasSubstr("rank 0 is alive"));
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (failures == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THROW(progress.submit(progress.queue("q"), task), MpiError);
  EXPECT_EQ(failures, 1);
}

TEST_P(ProgressThread, a_peer_that_says_it_is_busy_is_waited_for) {
  if (world.size() % 2 == 1) GTEST_SKIP() << "two ranks and four say as much";
  ProgressOptions options = patient(GetParam());
  options.operation_deadline = 3;
  options.abort_on_deadline = false;
  Progress progress(world, options);
  std::vector<float> data(10, 1);
  AllReduceTask<float> task("busy", std::span(data), world.size());
  if (world.rank() == 0) {
    for (int i = 0; i < 80; ++i) {  // longer than the deadline in all, and each far shorter
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      progress.tick();
    }
  }
  EXPECT_EQ(failure_of(progress, task), "");
}

TEST_P(ProgressThread, every_task_is_in_the_trace) {
  trace::Sink sink(world.rank());
  ProgressOptions options = patient(GetParam());
  options.trace = &sink;
  Progress progress(world, options);
  std::vector<float> data(10, 1);
  all_reduce(progress, "traced", std::span(data));
  trace::Recording recording;
  const auto spans = sink.collect(recording);
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(recording.name_of(spans[0]), "traced");
  EXPECT_EQ(recording.tracks[spans[0].track], "comm.default");
  EXPECT_EQ(spans[0].activity, trace::Activity::communication);
  EXPECT_EQ(spans[0].bytes, 40U);
  EXPECT_LE(spans[0].begin, spans[0].end);
}

TEST_P(ProgressThread, options_that_make_no_sense_are_refused) {
  const auto refused = [&](auto change) {
    ProgressOptions options = patient(GetParam());
    change(options);
    EXPECT_THROW(Progress(world, options), OptionError);
  };
  refused([](auto& options) { options.heartbeat = 0; });
  refused([](auto& options) { options.deadline = -1; });
  refused([](auto& options) { options.operation_deadline = -1; });
  refused([](auto& options) { options.piece_bytes = 0; });
  refused([&](auto& options) {
    options.network = profile::Network::uniform(1, 0.0, 1e9);
    options.transport = Transport::window;
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, ProgressThread,
                         testing::Values(Way{"messages", Transport::messages},
                                         Way{"window", Transport::window},
                                         Way{"slots", Transport::window, false}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(EnvironmentTest, a_second_environment_leaves_mpi_running) {
  { const Environment second; }
  EXPECT_TRUE(Environment::active());
  const Communicator world;
  EXPECT_GE(world.size(), 1);
}

TEST(CommunicatorTest, is_made_while_the_program_awaits_a_message_from_anybody) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int received = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
  const Communicator world;
  MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(received, (rank + size - 1) % size);
}

TEST(CommunicatorTest, ranks_split_by_color_in_the_order_of_their_keys) {
  const Communicator world;
  const Communicator half = world.split(world.rank() % 2, -world.rank(), "half");
  EXPECT_EQ(half.size(), (world.size() + (world.rank() % 2 == 0 ? 1 : 0)) / 2);
  EXPECT_EQ(half.rank(), half.size() - 1 - world.rank() / 2);
  EXPECT_EQ(half.name(), "half");
  Communicator moved = world.shared_node();
  const Communicator taken = std::move(moved);
  EXPECT_GE(taken.size(), 1);
}

}  // namespace
