// Schedules of swapping in virtual time, against what is known of them in closed form.

#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/plan/swap_program.hpp>
#include <reef/schedule/recording.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trace/overlap.hpp>

#include "support/chains.hpp"

namespace reef::plan {
namespace {

using test::Bounds;
using test::random_chain;
using test::SubModel;
using testing::HasSubstr;

Bounds random_bounds(std::mt19937_64& random, int n) {
  Bounds bounds{0};
  for (int i = 1; i < n; ++i) {
    if (random() % 2 == 0) bounds.push_back(i);
  }
  if (bounds.size() == 1) bounds.push_back(1);
  bounds.push_back(n);
  return bounds;
}

/// So many random chains with random bounds; `visit` gets the number of the run, too.
void for_random_chains(int runs,
                       const std::function<void(int, const OperatorChain&, const Bounds&)>& visit) {
  std::mt19937_64 random(1);
  for (int run = 0; run < runs; ++run) {
    SCOPED_TRACE("run " + std::to_string(run));
    const int n = 2 + run % 9;
    const OperatorChain chain = random_chain(random, n);
    visit(run, chain, random_bounds(random, n));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SwapProgram, two_lanes_take_the_time_that_the_planner_counts) {
  for_random_chains(2000, [&](int run, const OperatorChain& chain, const Bounds& bounds) {
    const std::int64_t accumulation = 1 + run % 4;
    const auto s = SubModel::all(chain, bounds, accumulation);
    const SwapTimes times = swap_times(chain, bounds, {accumulation, SwapLanes::two_lanes});
    ASSERT_EQ(times.iteration, test::time_of(s));
    // Nothing is on the device yet: the first iteration waits for its first sub-model.
    ASSERT_EQ(times.first, times.iteration + s.front().load);
  });
}

TEST(SwapProgram, loads_that_begin_at_the_turns_are_waited_for_less) {
  int earlier = 0;
  for_random_chains(500, [&](int, const OperatorChain& chain, const Bounds& bounds) {
    for (const SwapLanes lanes : {SwapLanes::two_lanes, SwapLanes::three_lanes}) {
      const Ticks late = swap_times(chain, bounds, {2, lanes}).iteration;
      const Ticks early = swap_times(chain, bounds, {2, lanes, 0, true}).iteration;
      ASSERT_LE(early, late);
      if (early < late) ++earlier;
    }
  });
  EXPECT_GT(earlier, 50);
}

TEST(SwapProgram, no_schedule_is_faster_than_its_busiest_lane) {
  for_random_chains(500, [&](int, const OperatorChain& chain, const Bounds& bounds) {
    const auto s = SubModel::all(chain, bounds, 2);
    Ticks compute = 0;
    Ticks loads = 0;
    Ticks leaving = 0;
    for (std::size_t i = 0; i < s.size(); ++i) {
      compute += s[i].forward + s[i].backward;
      loads += (i > 0 ? s[i].load : 0) + (i + 1 < s.size() ? s[i].load : 0);
      leaving += (i + 1 < s.size() ? s[i].leave_forward : 0) + (i > 0 ? s[i].leave_backward : 0);
    }
    Ticks more_slots = 0;
    for (const int slots : {0, 8, 3, 2}) {
      const SwapTimes times = swap_times(chain, bounds, {2, SwapLanes::three_lanes, slots});
      EXPECT_EQ(times.compute, compute);
      EXPECT_GE(times.iteration, compute);
      EXPECT_GE(times.iteration, loads);
      EXPECT_GE(times.iteration, leaving);
      EXPECT_GE(times.iteration, more_slots) << slots << " slots";
      more_slots = times.iteration;
    }
    // What leaves has a lane of its own: no slower than beside the compute.
    EXPECT_LE(more_slots, swap_times(chain, bounds, {2, SwapLanes::two_lanes}).iteration);
  });
}

TEST(SwapProgram, streaming_takes_each_micro_batch_by_itself) {
  for_random_chains(300, [&](int, const OperatorChain& chain, const Bounds& bounds) {
    const auto s = SubModel::all(chain, bounds, 1);
    // A load beside each sub-model that runs: the next one's, but where the last stays.
    Ticks streaming = s.front().load + s.front().backward;
    Ticks sync = 0;
    for (std::size_t i = 0; i < s.size(); ++i) {
      sync += s[i].forward + s[i].backward + 2 * s[i].load + s[i].leave_backward;
      if (i + 1 == s.size()) {
        streaming += s[i].forward;
      } else {
        streaming += std::max(s[i].forward, s[i + 1].load) + std::max(s[i + 1].backward, s[i].load);
      }
    }
    EXPECT_EQ(swap_times(chain, bounds, {3, SwapLanes::streaming}).iteration, 3 * streaming);
    EXPECT_EQ(swap_times(chain, bounds, {3, SwapLanes::streaming_sync}).iteration, 3 * sync);
  });
}

TEST(SwapProgram, what_is_foreseen_becomes_a_trace) {
  std::mt19937_64 random(6);
  const OperatorChain chain = random_chain(random, 6);
  const Bounds bounds{0, 2, 4, 6};
  const schedule::Program program = swap_program(chain, bounds, {2, SwapLanes::three_lanes});
  const std::span one(&program, 1);
  const auto run = schedule::simulate(one, schedule::World::uniform(1, {}, {}), 1);
  const auto recordings = schedule::recordings_of(one, run, 1e-6);
  ASSERT_EQ(recordings.size(), 1U);
  EXPECT_EQ(recordings[0].spans.size(), program.round.size());
  double compute = 0;
  double copies = 0;
  for (const trace::Span& span : recordings[0].spans) {
    const bool runs = span.activity == trace::Activity::compute;
    (runs ? compute : copies) += span.end - span.begin;
    EXPECT_EQ(recordings[0].tracks[span.track], runs ? "compute"
                                                : recordings[0].name_of(span).starts_with("Load")
                                                    ? "load"
                                                    : "evict");
  }
  EXPECT_NEAR(compute, static_cast<double>(swap_times(chain, bounds, {2}).compute) * 1e-6, 1e-12);
  EXPECT_GT(copies, 0);
}

TEST(SwapProgram, bad_bounds_and_slots_are_refused) {
  std::mt19937_64 random(5);
  const OperatorChain chain = random_chain(random, 4);
  const auto refusal = [&](const Bounds& bounds, const AtomSchedule& schedule) -> std::string {
    try {
      swap_program(chain, bounds, schedule);
    } catch (const OptionError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal({0, 4}, {}), HasSubstr("the bounds 0, 4 do not cut a chain of 4 operators"));
  EXPECT_THAT(refusal({0, 3, 2, 4}, {}), HasSubstr("do not cut"));
  EXPECT_THAT(refusal({0, 2, 5}, {}), HasSubstr("do not cut"));
  EXPECT_THAT(refusal({0, 2, 4}, {1, SwapLanes::three_lanes, 1}), HasSubstr("1 slots"));
  for (const SwapLanes lanes :
       {SwapLanes::two_lanes, SwapLanes::streaming, SwapLanes::streaming_sync}) {
    EXPECT_THAT(refusal({0, 2, 4}, {1, lanes, 2}), HasSubstr("'slots' is 2 where"));
  }
  for (const SwapLanes lanes : {SwapLanes::streaming, SwapLanes::streaming_sync})
    EXPECT_THAT(refusal({0, 2, 4}, {1, lanes, 0, true}), HasSubstr("'turn' where"));
  EXPECT_THAT(refusal({0, 2, 4}, {1, SwapLanes::three_lanes, -1}), HasSubstr("-1 slots"));
  EXPECT_THAT(refusal({0, 2, 4}, {0}), HasSubstr("0 micro-batches"));
  const OperatorChain long_chain = random_chain(random, 5000);
  Bounds each(5001);
  std::iota(each.begin(), each.end(), 0);
  EXPECT_THROW(swap_program(long_chain, each, {}), OptionError);
}

}  // namespace
}  // namespace reef::plan
