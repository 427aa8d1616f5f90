// Orders that are searched: never worse than the known ones, the best of all where all can be tried, and a bound.

#include <reef/plan/pipeline_schedules.hpp>
#include <reef/plan/pipeline_search.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/plan/detail/all_orders.hpp>
#include <reef/plan/detail/free_pipeline.hpp>
#include <reef/plan/pipeline_model.hpp>

namespace reef::test {
namespace {

using plan::PipelineOrderProblem;
using plan::PipelineSearch;
using testing::HasSubstr;

/// Whole numbers, in sequence.
class Whole {
public:
  explicit Whole(std::uint64_t seed) : seed_(seed) {}
  int from(int least, int most) {
    return least + static_cast<int>(random_bits({seed_, 0, 8, 0}, next_++) %
                                    static_cast<unsigned>(most - least + 1));
  }

private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

PipelineOrderProblem random_problem(std::uint64_t seed, int ranks, int micro_batches, int chunks) {
  Whole draws(seed);
  PipelineOrderProblem problem;
  problem.micro_batches = micro_batches;
  for (int c = 0; c < chunks; ++c) {
    problem.rank_of_chunk.push_back(c < ranks ? c : draws.from(0, ranks - 1));
    problem.times.forward.push_back(draws.from(1, 9));
    problem.times.input_backward.push_back(draws.from(1, 9));
    problem.times.weight_backward.push_back(draws.from(0, 9));
    if (c == 0) continue;
    problem.forward.push_back({c - 1, c, static_cast<Bytes>(draws.from(1, 9))});
    problem.backward.push_back({c, c - 1, static_cast<Bytes>(draws.from(1, 9))});
    if (c > 1 && draws.from(0, 2) == 0) problem.forward.push_back({0, c, 3});
  }
  problem.times.world = schedule::World::uniform(ranks, {}, {});
  for (schedule::Link& link : problem.times.world.links) {
    link = {static_cast<Seconds>(draws.from(0, 30)), 1};
  }
  problem.splits = draws.from(0, 1) == 1;
  std::vector<int> own(static_cast<std::size_t>(ranks), 0);
  for (const int rank : problem.rank_of_chunk) ++own[static_cast<std::size_t>(rank)];
  if (draws.from(0, 3) > 0) {
    for (const int chunks_of_rank : own) {
      problem.max_activations.push_back(draws.from(chunks_of_rank, chunks_of_rank * micro_batches));
    }
  }
  return problem;
}

/// Holds that it is an order of the problem that takes what it says.
void expect_order(const PipelineOrderProblem& problem, const PipelineSearch& found) {
  ASSERT_TRUE(found.feasible) << found.why;
  EXPECT_NO_THROW(found.order.validate());
  EXPECT_EQ(found.order.rank_of_chunk, problem.rank_of_chunk);
  const auto estimate = plan::estimate(problem.model(found.order.tasks));
  EXPECT_EQ(estimate.makespan, found.makespan);
  for (std::size_t r = 0; r < problem.max_activations.size(); ++r) {
    EXPECT_LE(estimate.peak_activations[r], problem.max_activations[r]);
  }
  for (const int pending : estimate.peak_pending_weight) {
    if (!problem.splits) {
      EXPECT_EQ(pending, 0);
    }
  }
  EXPECT_LE(plan::pipeline_lower_bound(problem), found.makespan * (1 + 1e-12));
  EXPECT_LE(found.lower_bound, found.makespan);
  if (!found.fixed.empty()) {
    EXPECT_LE(found.makespan, found.fixed_makespan);
  }
}

}  // namespace

TEST(PipelineSearch, where_all_orders_can_be_tried_none_is_better_and_none_below_the_bound) {
  int tried = 0;
  int met = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Whole draws(seed + 1000);
    const int p = draws.from(1, 3);
    const PipelineOrderProblem problem =
        random_problem(seed, p, draws.from(1, p == 2 ? 4 : 3), p + draws.from(0, 4) / 4);
    const plan::detail::AllOrders all(problem);
    if (!all.are_few()) continue;
    plan::detail::FreePipeline free(problem.model({}), p);
    Seconds best = plan::detail::FreePipeline::never;
    all.for_each([&](const auto& tasks) { best = std::min(best, free.run(tasks)); });
    const PipelineSearch found = plan::search_pipeline_order(problem);
    expect_order(problem, found);
    EXPECT_EQ(found.makespan, best);
    EXPECT_TRUE(found.optimal);
    const Seconds bound = plan::pipeline_lower_bound(problem);
    EXPECT_LE(bound, best);
    met += bound == best ? 1 : 0;
    ++tried;
  }
  EXPECT_GT(tried, 40);
  EXPECT_GT(met, tried * 2 / 3) << "the bound is tight as a rule";
}

TEST(PipelineSearch, an_answer_is_an_order_that_fits_and_no_worse_than_what_is_known) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Whole draws(seed + 5000);
    const int p = draws.from(1, 6);
    const PipelineOrderProblem problem =
        random_problem(seed, p, draws.from(1, 12), p + draws.from(0, 4));
    expect_order(problem, plan::search_pipeline_order(problem, {.effort = 1}));
  }
  // Placements of known schedules: two chunks on each rank.
  for (const char* name : {"interleaved", "zb-v"}) {
    const plan::PipelineOrder order = plan::pipeline_order_of(name, 3, 6);
    const PipelineOrderProblem problem{6, order.rank_of_chunk,
                                       plan::PipelineTimes::even(order, 5, 5, 5, {2, 0})};
    const PipelineSearch found = plan::search_pipeline_order(problem, {.effort = 2});
    expect_order(problem, found);
    EXPECT_FALSE(found.fixed.empty());
    EXPECT_LE(found.makespan, plan::estimate(problem.model(order.tasks)).makespan);
  }
}

TEST(PipelineSearch, on_slow_links_it_is_a_sixth_better_than_what_is_known_at_the_memory_of_1f1b) {
  std::vector<double> gains;
  for (std::uint64_t seed = 0; seed < 9; ++seed) {
    Whole draws(seed + 77);
    const int p = 8;
    const plan::PipelineOrder order = plan::one_f_one_b_order(p, 16);
    PipelineOrderProblem problem{16, order.rank_of_chunk,
                                 plan::PipelineTimes::even(order, 100, 100, 100)};
    for (schedule::Link& link : problem.times.world.links) {
      link = {static_cast<Seconds>(draws.from(20, 600)), 1};
    }
    for (int c = 1; c < p; ++c) {
      problem.forward.push_back({c - 1, c, static_cast<Bytes>(draws.from(10, 150))});
      problem.backward.push_back({c, c - 1, static_cast<Bytes>(draws.from(10, 150))});
    }
    problem.max_activations.assign(8, 8);
    const PipelineSearch found = plan::search_pipeline_order(problem, {.effort = 2});
    expect_order(problem, found);
    gains.push_back(1 - found.makespan / found.fixed_makespan);
  }
  std::sort(gains.begin(), gains.end());
  EXPECT_GT(gains.front(), 0.05);
  EXPECT_GT(gains[4], 0.16);
}

TEST(PipelineSearch, seed_and_effort_decide_the_answer) {
  const PipelineOrderProblem problem = random_problem(6, 5, 11, 5);
  const auto twice = [&](plan::PipelineSearchOptions options) {
    const PipelineSearch first = plan::search_pipeline_order(problem, options);
    const PipelineSearch second = plan::search_pipeline_order(problem, options);
    EXPECT_EQ(plan::text_of(first.order), plan::text_of(second.order));
    EXPECT_EQ(first.order.rank_of_chunk, second.order.rank_of_chunk);
    EXPECT_EQ(first.makespan, second.makespan);
    return first.makespan;
  };
  std::vector<std::pair<int, Seconds>> told;
  const Seconds few = twice({.seed = 4, .effort = 1});
  const Seconds more = twice({.seed = 4, .effort = 6});
  EXPECT_LE(more, few);
  const PipelineSearch none = plan::search_pipeline_order(
      problem, {.effort = 0, .progress = [&](int effort, Seconds makespan) {
                  told.emplace_back(effort, makespan);
                }});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0], std::pair(0, none.makespan));
}

TEST(PipelineSearch, what_cannot_be_is_refused_or_an_answer) {
  const PipelineOrderProblem good = random_problem(1, 3, 4, 3);
  const auto refused = [&](auto&& change, const std::string& says) {
    PipelineOrderProblem problem = good;
    change(problem);
    try {
      plan::search_pipeline_order(problem);
      FAIL() << says;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  };
  refused([](auto& p) { p.micro_batches = 0; }, "0 micro-batches");
  refused([](auto& p) { p.micro_batches = 1 << 21; }, "a search over orders of");
  refused([](auto& p) { p.rank_of_chunk[1] = 3; }, "rank_of_chunk[1] is 3");
  refused([](auto& p) { p.rank_of_chunk[1] = 0; }, "rank 1 of the order holds no chunk");
  refused([](auto& p) { p.max_activations = {1}; }, "max_activations has 1 entries");
  refused([](auto& p) { p.max_activations = {1, 0, 1}; }, "max_activations[1] is 0");
  refused([](auto& p) { p.times.forward[0] = -1; }, "forward of chunk 0 takes -1");
  refused([](auto& p) { p.times.world.machines[0].uplink_bytes_per_second = 1; }, "shared uplinks");
  EXPECT_THROW(plan::search_pipeline_order(good, {.effort = -2}), OptionError);
  EXPECT_THROW(plan::search_pipeline_order(good, {.budget = -1}), OptionError);
  PipelineOrderProblem tight = random_problem(1, 3, 4, 6);
  tight.max_activations = {1, 1, 1};
  const PipelineSearch none = plan::search_pipeline_order(tight);
  EXPECT_FALSE(none.feasible);
  EXPECT_THAT(none.why, HasSubstr("one micro-batch needs"));
}

}  // namespace reef::test
