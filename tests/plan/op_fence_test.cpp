// Pipelines over uneven devices: the planner against every order and every cut, its bounds, and what it refuses.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/detail/bottleneck_sweep.hpp>
#include <reef/plan/detail/free_split.hpp>
#include <reef/plan/detail/op_fence_search.hpp>
#include <reef/plan/detail/split_costs.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/pipeline_problem_json.hpp>
#include <reef/plan/split_in_order.hpp>

#include "support/pipelines.hpp"

namespace reef::plan {
namespace {

using test::least_time;
using test::no_plan;
using test::random_pipeline;
using testing::HasSubstr;

/// That a plan is one: consecutive stages of all operators, on devices that hold them, none twice; and its T.
void expect_plan(const PipelineProblem& problem, const PipelinePlan& plan) {
  ASSERT_TRUE(plan.feasible) << plan.why;
  std::set<int> devices;
  int end = 0;
  for (const Stage& stage : plan.stages) {
    EXPECT_EQ(stage.first, end);
    EXPECT_GT(stage.end, stage.first);
    EXPECT_TRUE(devices.insert(stage.device).second) << "device " << stage.device << " comes twice";
    end = stage.end;
  }
  EXPECT_EQ(end, problem.operators());
  EXPECT_TRUE(problem.fits(plan.stages));
  EXPECT_EQ(problem.time(plan.stages).pipelined, plan.time.pipelined);
  EXPECT_LE(plan.lower_bound, plan.time.pipelined);
}

void expect_least(const PipelineProblem& problem, const PipelinePlan& plan, double least) {
  EXPECT_EQ(plan.feasible, least < no_plan) << plan.why;
  EXPECT_TRUE(plan.optimal);
  if (!plan.feasible || least == no_plan) {
    EXPECT_FALSE(plan.why.empty());
    return;
  }
  expect_plan(problem, plan);
  EXPECT_NEAR(plan.time.pipelined, least, 1e-9 * least);
  EXPECT_NEAR(plan.lower_bound, least, 1e-9 * least);
}

TEST(OpFence, takes_the_least_time_of_all_orders_and_all_cuts) {
  std::mt19937_64 random(1);
  int infeasible = 0;
  for (int run = 0; run < 400; ++run) {
    SCOPED_TRACE("run " + std::to_string(run));
    const PipelineProblem problem = random_pipeline(random, {.devices = 6,
                                                             .operators = 4 + run % 7,
                                                             .micro_batches = 1 + run % 9,
                                                             .tight = run % 2 == 0,
                                                             .asymmetric = run % 3 == 0,
                                                             .alike = run % 5 == 0});
    const double least = least_time(problem);
    expect_least(problem, op_fence(problem), least);
    infeasible += least == no_plan ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(infeasible, 20);
  EXPECT_LT(infeasible, 200);
}

TEST(OpFence, proves_what_it_says_of_nine_devices_too) {
  std::mt19937_64 random(2);
  for (int run = 0; run < 12; ++run) {
    SCOPED_TRACE("run " + std::to_string(run));
    const PipelineProblem problem =
        random_pipeline(random, {.devices = 7 + run % 3,
                                 .operators = 11,
                                 .micro_batches = run % 4 == 0 ? 1000 : 6,
                                 .tight = run % 2 == 0,
                                 .alike = run % 3 == 0});
    expect_least(problem, op_fence(problem), least_time(problem));
  }
}

TEST(OpFence, splits_a_given_order_exactly_with_devices_left_out_or_not) {
  std::mt19937_64 random(3);
  for (int run = 0; run < 200; ++run) {
    SCOPED_TRACE("run " + std::to_string(run));
    const PipelineProblem problem = random_pipeline(
        random,
        {.devices = 4, .operators = 9, .micro_batches = 1 + run % 7, .tight = run % 2 == 0});
    const std::vector<int> order{2, 0, 3, 1};
    std::vector<int> place(5, 4);  // the end comes after all
    for (int p = 0; p < 4; ++p)
      place[static_cast<std::size_t>(order[static_cast<std::size_t>(p)])] = p;
    for (const bool skips : {true, false}) {
      const double least = least_time(problem, [&](int device, int next) {
        const int at = device < 0 ? -1 : place[static_cast<std::size_t>(device)];
        const int to = place[static_cast<std::size_t>(next)];
        return skips ? to > at : to == at + 1;
      });
      expect_least(problem, split_in_order(problem, order, skips), least);
    }
  }
}

TEST(OpFence, memory_that_is_said_by_where_stages_may_begin_is_heeded) {
  std::mt19937_64 random(8);
  int fitted = 0;
  for (int run = 0; run < 100; ++run) {
    SCOPED_TRACE("run " + std::to_string(run));
    PipelineProblem problem = random_pipeline(random, {.devices = 3, .operators = 9, .micro_batches = 1 + run % 7, .tight = true});
    const std::vector<int> order{2, 0, 1};
    StageBegins earliest;
    for (const int device : order) {
      std::vector<int>& begins = earliest.emplace_back();
      for (int end = 0; end <= 9; ++end) {
        Bytes sum = 0;
        int first = end;
        while (first > 0 && sum + problem.memory[static_cast<std::size_t>(first - 1)] <= problem.capacity[static_cast<std::size_t>(device)])
          sum += problem.memory[static_cast<std::size_t>(--first)];
        begins.push_back(first);
      }
    }
    const PipelinePlan summed = split_in_order(problem, order, false);
    problem.memory.assign(9, 0);
    const PipelinePlan said = split_in_order(problem, order, earliest);
    EXPECT_EQ(said.stages, summed.stages);
    EXPECT_EQ(said.feasible, summed.feasible);
    fitted += said.feasible ? 1 : 0;
  }
  EXPECT_GT(fitted, 10);
  EXPECT_LT(fitted, 90);
  const PipelineProblem problem = random_pipeline(random, {.devices = 2, .operators = 3});
  EXPECT_THROW(split_in_order(problem, {0, 1}, StageBegins{{0, 0, 0, 0}}), OptionError);
  EXPECT_THROW(split_in_order(problem, {0, 1}, StageBegins{{0, 0, 0}, {0, 0, 0}}), OptionError);
}

TEST(OpFence, where_no_device_may_be_left_out_it_takes_the_least_of_all_their_orders) {
  std::mt19937_64 random(6);
  int left_out = 0;
  for (int run = 0; run < 63; ++run) {
    SCOPED_TRACE("run " + std::to_string(run));
    const int devices = run < 60 ? 1 + run % 5 : 7;
    const PipelineProblem problem = random_pipeline(random, {.devices = devices,
                                                             .operators = 8,
                                                             .micro_batches = 1 + run % 9,
                                                             .tight = run % 4 == 0,
                                                             .asymmetric = run % 3 == 0});
    double least = no_plan;
    std::vector<int> order(static_cast<std::size_t>(devices));
    std::iota(order.begin(), order.end(), 0);
    do {
      const PipelinePlan split = split_in_order(problem, order, false);
      if (split.feasible) least = std::min(least, split.time.pipelined);
    } while (std::next_permutation(order.begin(), order.end()));
    const PipelinePlan plan = op_fence(problem, {.effort = 1, .every_device = true});
    if (devices < 7) {
      expect_least(problem, plan, least);
    } else {
      expect_plan(problem, plan);
      EXPECT_NEAR(plan.time.pipelined, least, 1e-9 * least);
    }
    if (!plan.feasible) continue;
    EXPECT_EQ(plan.stages.size(), order.size());
    const PipelinePlan free = op_fence(problem, {.effort = 1});
    EXPECT_LE(free.time.pipelined, plan.time.pipelined * (1 + 1e-12));
    left_out += free.stages.size() < order.size() ? 1 : 0;
  }
  EXPECT_GT(left_out, 10);
}

TEST(OpFence, more_devices_than_operators_cannot_each_have_one) {
  std::mt19937_64 random(7);
  const PipelineProblem problem = random_pipeline(random, {.devices = 4, .operators = 3});
  const PipelinePlan plan = op_fence(problem, {.every_device = true});
  EXPECT_FALSE(plan.feasible);
  EXPECT_TRUE(plan.optimal);
  EXPECT_THAT(plan.why, HasSubstr("3 operators for 4 devices"));
}

TEST(OpFence, its_bound_lies_above_no_optimum) {
  std::mt19937_64 random(4);
  for (int run = 0; run < 100; ++run) {
    const PipelineProblem problem = random_pipeline(
        random, {.operators = 9, .micro_batches = 1 + run % 30, .tight = run % 2 == 0});
    const double least = least_time(problem);
    const detail::SplitCosts costs(problem);
    EXPECT_LE(costs.least_sum() + costs.more_micro_batches() * costs.least_bottleneck(), least);
    detail::FreeSplit any(costs);
    any.allow(1'000'000'000);
    for (int counted = 0; counted <= 6; ++counted) {  // devices that come once at most
      const detail::Swept swept = detail::sweep(costs, any);
      ASSERT_TRUE(swept.complete);
      EXPECT_LE(costs.time(swept.split), least * (1 + 1e-12)) << counted;
      if (counted == 6) {
        EXPECT_NEAR(costs.time(swept.split), least, 1e-9 * least);
      } else {
        any.count(counted);
      }
    }
  }
}

TEST(OpFence, an_answer_that_is_not_proven_has_a_bound_and_betters_every_baseline) {
  std::mt19937_64 random(5);
  const PipelineProblem problem =
      random_pipeline(random, {.devices = 32, .operators = 48, .micro_batches = 16, .tight = true});
  const PipelinePlan plan = op_fence(problem, {.effort = 1});
  expect_plan(problem, plan);
  EXPECT_GT(plan.lower_bound, 0);
  std::vector<int> order(32);
  std::iota(order.begin(), order.end(), 0);
  const std::vector<int> fence = fence_order(problem, clusters_of(problem));
  EXPECT_THAT(fence, testing::UnorderedElementsAreArray(order));
  for (const PipelinePlan& other :
       {split_in_order(problem, order), split_in_order(problem, fence)}) {
    if (!other.feasible) continue;
    EXPECT_LE(plan.time.pipelined, other.time.pipelined * (1 + 1e-12));
  }
  // Baselines heed no memory.
  EXPECT_LE(plan.time.pipelined, equal_operators(problem, order).time.pipelined);
  EXPECT_LE(plan.time.pipelined, equal_compute(problem, order).time.pipelined);
  // Equal seed and effort give the same plan.
  const PipelinePlan again = op_fence(problem, {.effort = 1});
  EXPECT_EQ(again.stages, plan.stages);
  EXPECT_EQ(again.lower_bound, plan.lower_bound);
  EXPECT_EQ(op_fence(problem, {.effort = 1, .budget = 3600}).stages, plan.stages);
}

TEST(OpFence, a_budget_counts_whole_rounds_alone) {
  std::mt19937_64 random(12);
  const PipelineProblem problem =
      random_pipeline(random, {.devices = 40, .operators = 60, .micro_batches = 16, .tight = true});
  const PipelinePlan start = op_fence(problem, {.effort = 0});
  expect_plan(problem, start);
  EXPECT_EQ(start.effort, 0);
  const PipelinePlan none = op_fence(problem, {.budget = 1e-9});
  EXPECT_EQ(none.effort, 0);
  EXPECT_EQ(none.stages, start.stages);
  EXPECT_EQ(none.lower_bound, start.lower_bound);
  EXPECT_FALSE(none.optimal);
  // What a round that is stopped half-way had found does not count: wherever it was.
  for (const int looks : {0, 1, 2, 5, 20, 100}) {
    detail::OpFenceSearch search(problem, 0);
    const detail::Split before = search.best();
    const Seconds bound = search.lower_bound();
    int looked = 0;
    ASSERT_FALSE(search.round([&] { return looked++ >= looks; })) << looks;
    EXPECT_EQ(search.best().stages, before.stages) << looks;
    EXPECT_EQ(search.lower_bound(), bound) << looks;
  }
}

TEST(OpFence, finds_a_plan_where_memory_is_scarce_and_devices_are_too_many_to_try_all) {
  std::mt19937_64 random(11);
  PipelineProblem problem =
      random_pipeline(random, {.devices = 48, .operators = 72, .tight = true});
  for (std::size_t x = 0; x < problem.capacity.size(); ++x)
    problem.capacity[x] = Bytes{1'600'000'000} + (x % 3) * Bytes{300'000'000};
  const PipelinePlan plan = op_fence(problem, {.effort = 1});
  expect_plan(problem, plan);
  EXPECT_FALSE(split_in_order(problem, fence_order(problem, clusters_of(problem))).feasible);
}

TEST(OpFence, the_order_of_devices_in_a_problem_changes_no_time) {
  std::mt19937_64 random(6);
  for (int run = 0; run < 24; ++run) {
    SCOPED_TRACE("run " + std::to_string(run));
    const bool large = run == 0;  // not proven
    const PipelineProblem problem = random_pipeline(random, {.devices = large ? 20 : 7,
                                                             .operators = large ? 30 : 12,
                                                             .micro_batches = 8,
                                                             .tight = true,
                                                             .alike = run % 2 == 1});
    std::vector<int> order(problem.speed.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const PipelinePlan plan = op_fence(problem, {.effort = 1});
    const PipelinePlan other = op_fence(detail::reordered(problem, order), {.effort = 1});
    EXPECT_EQ(plan.feasible, other.feasible);
    EXPECT_EQ(plan.time.pipelined, other.time.pipelined);
  }
}

TEST(OpFence, keeps_clusters_together_and_takes_the_faster_links_between_them) {
  // Devices 0, 3, 4 and 1, 2, 5 are clusters; one link between them is fast: from 4 to 1.
  PipelineProblem problem;
  problem.flops.assign(6, 1e12);
  problem.memory.assign(6, 1);
  problem.cut.assign(7, 1e6);
  problem.speed.assign(6, 1e12);
  problem.capacity.assign(6, 1);
  problem.links.devices = 6;
  problem.links.latencies.assign(36, 1e-3);
  problem.links.rates.assign(36, 1e6);
  const std::vector<int> cluster{0, 1, 1, 0, 0, 1};
  for (std::size_t a = 0; a < 6; ++a) {
    for (std::size_t b = 0; b < 6; ++b) {
      if (cluster[a] == cluster[b]) problem.links.rates[a * 6 + b] = 1e9;
    }
  }
  problem.links.rates[4 * 6 + 1] = 5e6;
  problem.micro_batches = 10;
  EXPECT_EQ(clusters_of(problem).labels, cluster);
  const std::vector<int> order = fence_order(problem, clusters_of(problem));
  EXPECT_EQ(order[2], 4);
  EXPECT_EQ(order[3], 1);
  EXPECT_DOUBLE_EQ(op_fence(problem).time.pipelined,
                   split_in_order(problem, order, false).time.pipelined);
}

TEST(OpFence, leaves_devices_out_that_do_not_pay) {
  PipelineProblem problem;
  problem.flops.assign(4, 1e12);
  problem.memory.assign(4, 10);
  problem.cut.assign(5, 1e9);
  problem.speed = {1e12, 1e12};
  problem.capacity = {100, 100};
  problem.links = {2, std::vector<Seconds>(4, 1), std::vector<double>(4, 1e6), {}};
  problem.micro_batches = 100;
  EXPECT_EQ(op_fence(problem).stages, (std::vector<Stage>{{0, 0, 4}}));
  problem.capacity = {30, 100};
  EXPECT_EQ(op_fence(problem).stages, (std::vector<Stage>{{1, 0, 4}}));
  problem.capacity = {30, 30};
  EXPECT_EQ(op_fence(problem).stages.size(), 2U);
}

TEST(OpFence, baselines_give_each_device_as_many_operators_or_operations) {
  std::mt19937_64 random(7);
  PipelineProblem problem = random_pipeline(random, {.devices = 3, .operators = 9});
  problem.capacity.assign(3, Bytes{1} << 40);
  const std::vector<int> order{1, 2, 0};
  EXPECT_EQ(equal_operators(problem, order).stages,
            (std::vector<Stage>{{1, 0, 3}, {2, 3, 6}, {0, 6, 9}}));
  problem.flops = {6, 1, 1, 1, 1, 1, 1, 3, 3};
  EXPECT_EQ(equal_compute(problem, order).stages,
            (std::vector<Stage>{{1, 0, 1}, {2, 1, 7}, {0, 7, 9}}));
  problem.flops.assign(9, 0);
  EXPECT_EQ(equal_compute(problem, order).stages.back().end, 9);
  problem.capacity[2] = 1;
  const PipelinePlan heavy = equal_operators(problem, order);
  EXPECT_FALSE(heavy.feasible);
  EXPECT_THAT(heavy.why, HasSubstr("more memory than its device has"));
}

TEST(OpFence, says_why_nothing_fits) {
  std::mt19937_64 random(8);
  PipelineProblem problem = random_pipeline(random, {.devices = 3, .operators = 4});
  problem.memory = {5, 5, 5, 5};
  problem.capacity = {4, 4, 4};
  EXPECT_THAT(op_fence(problem).why,
              HasSubstr("operator 0 needs 5 bytes, and no device has more than 4"));
  problem.capacity = {6, 6, 6};
  EXPECT_THAT(op_fence(problem).why, HasSubstr("need 20 bytes, and all devices together have 18"));
  problem.capacity = {9, 9, 9};
  EXPECT_THAT(op_fence(problem).why, HasSubstr("no order of the devices holds"));
  EXPECT_TRUE(op_fence(problem).optimal);
  EXPECT_THAT(split_in_order(problem, {0, 1, 2}).why, HasSubstr("in that order"));
}

TEST(OpFence, a_graph_counts_what_skips_boundaries_once) {
  std::mt19937_64 random(9);
  for (int run = 0; run < 100; ++run) {
    constexpr int n = 8;
    std::vector<double> outputs;
    std::vector<std::pair<int, int>> edges;
    for (int from = 0; from < n; ++from) {
      outputs.push_back(static_cast<double>(random() % 100));
      for (int to = from + 1; to < n; ++to) {
        if (random() % 3 == 0) edges.emplace_back(from, to);
      }
    }
    const std::vector<double> crossing = crossing_bytes(outputs, edges);
    ASSERT_EQ(crossing.size(), 9U);
    for (int boundary = 0; boundary <= n; ++boundary) {
      std::set<int> producers;
      for (const auto& [from, to] : edges) {
        if (from < boundary && to >= boundary) producers.insert(from);
      }
      double bytes = 0;
      for (const int from : producers) bytes += outputs[static_cast<std::size_t>(from)];
      EXPECT_EQ(crossing[static_cast<std::size_t>(boundary)], bytes);
    }
  }
  EXPECT_EQ(crossing_bytes({0.1, 0.2, 0.3, 0.7}, {{0, 1}, {1, 3}, {2, 3}}),
            (std::vector<double>{0, 0.1, 0.2, 0.2 + 0.3, 0}));
  EXPECT_EQ(crossing_bytes({1e18, 1, 1}, {{0, 1}, {1, 2}}), (std::vector<double>{0, 1e18, 1, 0}));
  EXPECT_THROW(crossing_bytes({1, 1}, {{1, 0}}), OptionError);
  EXPECT_THROW(crossing_bytes({1, 1}, {{0, 2}}), OptionError);
}

TEST(OpFence, reads_a_graph_whose_outputs_are_fractions_or_huge) {
  io::Json graph{
      {"flops", {1, 1, 1}},        {"mem", {0, 0, 0}},         {"outputs", {0.1, 0.7, 0}},
      {"edges", {{0, 1}, {1, 2}}}, {"speed", {1, 1}},          {"cap", {1, 1}},
      {"alpha", {{0, 0}, {0, 0}}}, {"beta", {{0, 1}, {1, 0}}}, {"n_b", 1}};
  const PipelineProblem fractions = pipeline_problem_from_json(graph, "case");
  EXPECT_EQ(fractions.cut, (std::vector<double>{0, 0.1, 0.7, 0}));
  EXPECT_NEAR(op_fence(fractions).time.pipelined, 3, 1e-12);
  graph["outputs"] = {1e18, 3, 0};
  EXPECT_EQ(pipeline_problem_from_json(graph, "case").cut, (std::vector<double>{0, 1e18, 3, 0}));
  graph["edges"] = {{0, 2}, {1, 2}};
  graph["outputs"] = {1e18, 1e18, 0};
  try {
    static_cast<void>(pipeline_problem_from_json(graph, "case"));
    ADD_FAILURE() << "no error";
  } catch (const DecodeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the 'outputs' that cross boundary 2 have 2e+18 bytes"));
  }
}

TEST(OpFence, plans_for_the_slowest_devices_and_links_that_it_takes) {
  PipelineProblem slow;
  slow.flops = {1e24, 1e24};
  slow.memory = {1, 1};
  slow.cut = {0, 1e18, 0};
  slow.speed = {1, 1};
  slow.capacity = {1, 1};
  slow.links.devices = 2;
  slow.links.latencies.assign(4, 1e6);
  slow.links.rates.assign(4, 1);
  slow.micro_batches = 1'000'000'000;
  const PipelinePlan plan = op_fence(slow);
  ASSERT_TRUE(plan.feasible) << plan.why;
  EXPECT_NEAR(plan.time.pipelined / 1e33, 1, 1e-6);
}

TEST(OpFence, refuses_what_is_no_problem_and_names_it) {
  std::mt19937_64 random(10);
  const PipelineProblem good = random_pipeline(random, {});
  const auto refused = [&](const std::string& text, const auto& change) {
    PipelineProblem problem = good;
    change(problem);
    try {
      op_fence(problem);
      ADD_FAILURE() << "no error for " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused("flops has 0 numbers", [](auto& p) { p.flops.clear(); });
  refused("flops[2] is -1", [](auto& p) { p.flops[2] = -1; });
  refused("mem has 7 numbers", [](auto& p) { p.memory.pop_back(); });
  refused("cut has 8 numbers", [](auto& p) { p.cut.pop_back(); });
  refused("cut[1] is nan", [&](auto& p) { p.cut[1] = nan; });
  refused("speed[0] is 0", [](auto& p) { p.speed[0] = 0; });
  refused("speed has 2000 numbers", [](auto& p) { p.speed.assign(2000, 1e9); });
  refused("cap has 5 numbers", [](auto& p) { p.capacity.pop_back(); });
  refused("the network has 5 numbers", [](auto& p) { p.links.devices = 5; });
  refused("the link from 0 to 1", [](auto& p) { p.links.rates[1] = 0; });
  refused("n_b is 0", [](auto& p) { p.micro_batches = 0; });
  EXPECT_THROW(op_fence(good, {.effort = -2}), OptionError);
  EXPECT_THROW(op_fence(good, {.budget = nan}), OptionError);
  EXPECT_THROW(split_in_order(good, {0, 0}), OptionError);
  EXPECT_THROW(split_in_order(good, {6}), OptionError);
  EXPECT_THROW(split_in_order(good, {}), OptionError);
}

}  // namespace
}  // namespace reef::plan
