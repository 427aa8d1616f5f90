#include <reef/comm/shared_counter.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <comm/printers.hpp>
#include <comm/reference.hpp>
#include <reef/comm/call_task.hpp>
#include <reef/comm/detail/clock.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>

namespace reef::test {

namespace {

using namespace reef::comm;
using testing::HasSubstr;

using Numbers = std::vector<std::uint64_t>;

constexpr const char* name = "micro-batches";

void pause(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

/// The next `count` numbers of this rank, with a pause before each.
Numbers take(SharedCounter& counter, int count, int milliseconds = 0) {
  Numbers numbers;
  for (int i = 0; i < count; ++i) {
    pause(milliseconds);
    numbers.push_back(counter.next());
  }
  return numbers;
}

/// The numbers of all ranks, rising. Collective.
Numbers of_all_ranks(Progress& progress, const Numbers& mine) {
  std::vector<std::int64_t> offsets{0};
  for (const std::size_t count : gather_numbers(progress, "counts", mine.size())) {
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(count));
  }
  Numbers all(static_cast<std::size_t>(offsets.back()));
  all_gather<std::uint64_t>(progress, "numbers", mine, all, offsets);
  std::sort(all.begin(), all.end());
  return all;
}

/// What was used and what is left unused are the numbers below `next`, each once. Collective.
void expect_each_once(Progress& progress, const Numbers& used, const CounterState& state) {
  Numbers given = of_all_ranks(progress, used);
  const auto ranks = static_cast<std::size_t>(progress.size());
  EXPECT_LT(state.unused.size(), ranks) << "one is held at most, and none on rank 0";
  given.insert(given.end(), state.unused.begin(), state.unused.end());
  std::sort(given.begin(), given.end());
  Numbers expected(state.next);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(given, expected);
}

TEST(SharedCounter, gives_each_number_once_to_ranks_of_unequal_pace) {
  const Communicator world;
  Progress progress(world);
  SharedCounter counter(progress, name);
  EXPECT_EQ(counter.state(), CounterState{});
  const Numbers used = take(counter, 200 / (1 + world.rank()), world.rank());
  EXPECT_TRUE(std::is_sorted(used.begin(), used.end()));
  const CounterState state = counter.state();
  EXPECT_EQ(counter.state(), state) << "asking changes nothing";
  expect_each_once(progress, used, state);
}

TEST(SharedCounter, gives_them_as_fast_as_they_are_asked_for) {
  const Communicator world;
  Progress progress(world);
  SharedCounter counter(progress, name);
  const Numbers used = take(counter, 1000);
  expect_each_once(progress, used, counter.state());
}

TEST(SharedCounter, goes_on_after_its_state_was_asked_for) {
  const Communicator world;
  Progress progress(world);
  SharedCounter counter(progress, name);
  Numbers used;
  for (int round = 0; round < 20; ++round) {
    const Numbers more = take(counter, (world.rank() + round) % 3);
    used.insert(used.end(), more.begin(), more.end());
    expect_each_once(progress, used, counter.state());
  }
}

TEST(SharedCounter, does_not_wait_for_a_rank_that_has_stopped_asking) {
  const Communicator world;
  // A peer that is waited for may do nothing for so long; who asks for nothing is not waited for.
  Progress progress(world, {.operation_deadline = 4, .abort_on_deadline = false});
  SharedCounter counter(progress, name);
  const bool stops = world.rank() == world.size() - 1;
  Numbers used = take(counter, 1);
  if (world.size() > 1) pause(5000);
  const Numbers more = take(counter, stops ? 0 : 100);
  used.insert(used.end(), more.begin(), more.end());
  expect_each_once(progress, used, counter.state());
}

TEST(SharedCounter, is_answered_while_the_threads_of_rank_0_are_busy) {
  const Communicator world;
  Progress progress(world);
  SharedCounter counter(progress, name);
  Numbers used;
  if (world.rank() == 0) {
    // Until the others have all their numbers nothing of this rank returns but its progress thread.
    std::atomic<int> waiting{world.size() - 1};
    std::vector<char> done(static_cast<std::size_t>(world.size()));
    std::vector<std::unique_ptr<ReceiveTask>> receives;
    for (int rank = 1; rank < world.size(); ++rank) {
      receives.push_back(std::make_unique<ReceiveTask>(
          "done", rank, std::span(done).subspan(static_cast<std::size_t>(rank), 1)));
      progress.submit(progress.queue("done " + std::to_string(rank)), *receives.back(), {},
                      [&waiting] { --waiting; });
    }
    CallTask source("source", [&waiting] {
      while (waiting > 0) std::this_thread::yield();
    });
    progress.submit(progress.queue("source"), source);
    while (waiting > 0) std::this_thread::yield();
    progress.wait_all();
  } else {
    used = take(counter, 20);
    char done = 1;
    send(progress, "done", 0, std::span(&done, 1));
  }
  expect_each_once(progress, used, counter.state());
}

TEST(SharedCounter, is_asked_on_another_thread_beside_collectives_in_flight) {
  const Communicator world;
  Progress progress(world);
  SharedCounter counter(progress, name);
  constexpr std::int64_t n = 1 << 18;
  constexpr int rounds = 8;
  std::vector<float> data;
  std::vector<std::unique_ptr<CallTask>> calls;
  Numbers used;
  for (int round = 0; round < rounds; ++round) {
    data = inputs_of<float>(world.rank(), n, static_cast<std::uint64_t>(round));
    AllReduceTask<float> sum("sum", std::span(data), world.size());
    progress.submit(progress.queue("reduce"), sum);
    for (int i = 0; i <= world.rank(); ++i) {
      calls.push_back(std::make_unique<CallTask>("batch", [&] { used.push_back(counter.next()); }));
      progress.submit(progress.queue("receive"), *calls.back());
    }
    progress.wait(sum);
    EXPECT_TRUE(
        same_bits(data, sum_of_ranks<float>(world.size(), n, static_cast<std::uint64_t>(round))));
  }
  progress.wait_all();
  EXPECT_EQ(used.size(), static_cast<std::size_t>(rounds * (world.rank() + 1)));
  expect_each_once(progress, used, counter.state());
}

TEST(SharedCounter, claims_the_next_number_before_it_is_asked_for_over_a_slow_link) {
  const Communicator world;
  const Seconds latency = 0.05;
  ProgressOptions options;
  options.network = profile::Network::uniform(world.size(), latency, 1e6);
  Progress progress(world, options);
  SharedCounter counter(progress, name);
  const std::int64_t begin = comm::detail::now_ns();
  Numbers used = take(counter, 1);
  if (world.rank() != 0) {
    // The first has nothing to hide behind: there and back.
    EXPECT_GE(comm::detail::to_seconds(comm::detail::now_ns() - begin), 2 * latency);
  }
  // All ranks have asked once, and will not again until rank 0 has answered twice.
  const auto others = static_cast<std::uint64_t>(world.size() - 1);
  while (world.rank() == 0 && progress.meter().of(Kind::claim).messages < 2 * others) pause(1);
  barrier(progress, "answered");
  const Numbers more = take(counter, 1);
  used.insert(used.end(), more.begin(), more.end());
  expect_each_once(progress, used, counter.state());
}

TEST(SharedCounter, meters_claims_and_answers) {
  const Communicator world;
  Progress progress(world);
  SharedCounter counter(progress, name);
  take(counter, 7);
  static_cast<void>(counter.state());  // all eight of each rank are answered
  const Cost metered = progress.meter().of(Kind::claim);
  const auto others = static_cast<std::uint64_t>(world.size() - 1);
  EXPECT_EQ(metered.messages, world.rank() == 0 ? 8 * others : 8);
  const Cost each =
      world.rank() == 0 ? SharedCounter::cost_of_answer : SharedCounter::cost_of_claim;
  EXPECT_EQ(metered.bytes, metered.messages * each.bytes);
}

TEST(SharedCounter, goes_on_in_another_job_from_its_state) {
  const Communicator world;
  Numbers used;
  CounterState state;
  for (int job = 0; job < 3; ++job) {
    Progress progress(world);
    SharedCounter counter(progress, name, state);
    EXPECT_EQ(counter.state(), state);
    const Numbers more = take(counter, 3 + world.rank());
    used.insert(used.end(), more.begin(), more.end());
    state = counter.state();
    expect_each_once(progress, used, state);
    // What comes after the checkpoint is lost, and comes again.
    take(counter, 2);
  }
}

TEST(SharedCounter, resumes_with_what_more_ranks_left_unused) {
  const Communicator world;
  Progress progress(world);
  SharedCounter counter(progress, name);
  take(counter, 5);
  const CounterState from{40, {3, 5, 8, 13, 21, 34, 39}};
  counter.reset(from);
  EXPECT_EQ(counter.state(), from);
  // Ranks take 11 each: more than the unused ones that are theirs.
  Numbers given = of_all_ranks(progress, take(counter, 11));
  const CounterState state = counter.state();
  given.insert(given.end(), state.unused.begin(), state.unused.end());
  std::sort(given.begin(), given.end());
  Numbers expected = from.unused;
  for (std::uint64_t number = from.next; number < state.next; ++number) expected.push_back(number);
  EXPECT_EQ(given, expected);
}

TEST(SharedCounter, two_of_them_count_apart_and_a_name_that_is_taken_again_begins_anew) {
  const Communicator world;
  Progress progress(world);
  SharedCounter other(progress, "others", {.next = 100});
  for (int time = 0; time < 3; ++time) {
    SharedCounter counter(progress, name);
    const Numbers used = take(counter, 10);
    expect_each_once(progress, used, counter.state());
  }
  const Numbers used = of_all_ranks(progress, take(other, 4));
  EXPECT_EQ(std::set<std::uint64_t>(used.begin(), used.end()).size(), used.size());
  EXPECT_GE(used.front(), 100U);
}

TEST(SharedCounter, a_state_that_no_counter_was_in_is_refused) {
  const Communicator world;
  Progress progress(world);
  SharedCounter counter(progress, name, {.next = 7});
  EXPECT_THROW(counter.reset({10, {4, 4}}), OptionError);
  EXPECT_THROW(counter.reset({10, {5, 4}}), OptionError);
  EXPECT_THROW(counter.reset({10, {4, 10}}), OptionError);
  EXPECT_EQ(counter.state(), (CounterState{7, {}}));
}

TEST(SharedCounter, a_state_that_ranks_do_not_agree_on_is_refused) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  Progress progress(world);
  SharedCounter counter(progress, name, {.next = 7});
  const bool odd = world.rank() == world.size() - 1;
  EXPECT_THROW(counter.reset({odd ? 11U : 10U, {}}), OptionError);
  EXPECT_THROW(counter.reset({10, {odd ? 2U : 3U}}), OptionError);
  EXPECT_EQ(counter.state(), (CounterState{7, {}}));
}

TEST(SharedCounter, ends_with_a_claim_in_flight) {
  const Communicator world;
  ProgressOptions options;
  options.network = profile::Network::uniform(world.size(), 0.02, 1e6);
  Progress progress(world, options);
  SharedCounter counter(progress, name);
  EXPECT_LT(counter.next(), 2U * static_cast<unsigned>(world.size()));
}

TEST(SharedCounter, says_what_ended_another_rank) {
  const Communicator world;
  Progress progress(world);
  std::string text;
  try {
    SharedCounter counter(progress, name);
    take(counter, 3);
    if (world.rank() == world.size() - 1) {
      progress.give_up(std::make_exception_ptr(std::runtime_error("the disk is gone")));
    }
    while (true) take(counter, 1, 1);
  } catch (const std::exception& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("the disk is gone"));
}

TEST(SharedCounter, an_exception_on_one_rank_ends_a_waiting_claim_and_its_own_in_flight) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "nobody else";
  ProgressOptions options;
  options.network = profile::Network::uniform(world.size(), 0.1, 1e6);
  for (const int failing : {0, world.size() - 1}) {
    std::string text;
    try {
      Progress progress(world, options);
      SharedCounter counter(progress, name);
      take(counter, 1);
      if (world.rank() == failing) throw std::runtime_error("enough");
      while (true) take(counter, 1, 1);
    } catch (const std::exception& error) {
      text = error.what();
    }
    EXPECT_THAT(text, HasSubstr(world.rank() == failing ? "enough" : "ended by an exception"));
  }
}

}  // namespace

}  // namespace reef::test
