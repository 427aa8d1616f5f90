// The allocator against every placement of small networks, its bound, its order of devices, its baselines, and
// its errors.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/allocation_cost.hpp>
#include <reef/plan/detail/allocation_bound.hpp>
#include <reef/plan/detail/allocation_branch.hpp>
#include <reef/plan/detail/allocation_chain.hpp>
#include <reef/plan/detail/allocation_search.hpp>
#include <reef/plan/detail/arrangement.hpp>
#include <reef/plan/detail/bottleneck_matching.hpp>
#include <reef/plan/detail/cyclic_moves.hpp>
#include <reef/plan/detail/device_order.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/link_weights.hpp>
#include <reef/plan/detail/open_path.hpp>
#include <reef/plan/detail/shape_searches.hpp>
#include <reef/plan/genetic_allocation.hpp>

#include "support/allocations.hpp"

namespace reef::plan {
namespace {

using test::random_allocation;
using testing::HasSubstr;

constexpr double rounding = 1e-9;

/// Whether sigma is a placement, and what it costs as Eq. 1 is written.
double checked_cost(const AllocationProblem& problem, const Allocation& found) {
  EXPECT_EQ(found.sigma.size(), static_cast<std::size_t>(found.pipelines));
  std::vector<int> used;
  for (const std::vector<int>& pipeline : found.sigma) {
    EXPECT_EQ(pipeline.size(), static_cast<std::size_t>(found.stages));
    used.insert(used.end(), pipeline.begin(), pipeline.end());
  }
  std::sort(used.begin(), used.end());
  EXPECT_TRUE(std::adjacent_find(used.begin(), used.end()) == used.end());
  EXPECT_GE(used.front(), 0);
  EXPECT_LT(used.back(), problem.network.devices);
  const double total = found.cost.total();
  EXPECT_NEAR(allocation_cost(problem, found.sigma).total(), total, total * rounding);
  const double written = test::WrittenCost(problem)(found.sigma);
  EXPECT_NEAR(written, total, total * rounding);
  return written;
}

/// Regions of equal devices, with their links from a list of latencies and one of rates.
AllocationProblem regions(std::mt19937_64& random, const std::vector<int>& sizes, int stages,
                          int pipelines) {
  AllocationProblem problem;
  problem.stages = stages;
  problem.pipelines = pipelines;
  problem.activation_bytes = 4.7e8;
  problem.gradient_bytes = 6.5e8;
  std::vector<int> region;
  for (std::size_t r = 0; r < sizes.size(); ++r)
    region.insert(region.end(), static_cast<std::size_t>(sizes[r]), static_cast<int>(r));
  const std::size_t n = region.size();
  problem.network.devices = static_cast<int>(n);
  const AllocationProblem between =
      random_allocation(random, static_cast<int>(sizes.size()), 1, 1, 6, true);
  for (const int a : region) {
    for (const int b : region) {
      problem.network.latencies.push_back(a == b ? 0.005 : between.network.latency(a, b));
      problem.network.rates.push_back(a == b ? 1.25e9 : between.network.rate(a, b));
    }
  }
  return problem;
}

/// The same model and batch in another shape: what the devices have together is shared out anew.
AllocationProblem reshaped(const AllocationProblem& problem, int stages, int pipelines) {
  AllocationProblem result = problem;
  result.stages = stages;
  result.pipelines = pipelines;
  result.activation_bytes = problem.activation_bytes * problem.pipelines / pipelines;
  result.gradient_bytes = problem.gradient_bytes * problem.stages / stages;
  result.stage_flops = problem.stage_flops * problem.stages * problem.pipelines / (stages * pipelines);
  result.stage_bytes = problem.stage_bytes * problem.stages / stages;
  return result;
}

TEST(Allocate, is_what_the_search_of_all_placements_finds) {
  std::mt19937_64 random(26);
  int instances = 0;
  int optimal = 0;
  for (int devices = 1; devices <= 9; ++devices) {
    for (int stages = 1; stages <= devices; ++stages) {
      for (int pipelines = 1; stages * pipelines <= devices; ++pipelines) {
        const bool whole = stages * pipelines == devices;
        const int runs = devices < 9 ? 8 : 4;
        for (int run = 0; run < runs; ++run) {
          SCOPED_TRACE(testing::Message()
                       << stages << " x " << pipelines << " of " << devices << ", run " << run);
          AllocationProblem problem = random_allocation(random, devices, stages, pipelines,
                                                        run % 2 == 0 ? 1000 : 2, run % 4 < 2);
          problem.directed = run % 4 == 3;
          if (run % 4 == 1 && !whole) {
            problem.stage_flops = 1e12;
            for (int d = 0; d < devices; ++d)
              problem.speeds.push_back(1e11 * static_cast<double>(1 + random() % 9));
          }
          AllocationOptions options;
          options.seed = static_cast<std::uint64_t>(run);
          const Allocation found = allocate(problem, options);
          ++instances;
          ASSERT_TRUE(found.feasible) << found.why;
          const double least = test::enumerated_cost(problem);
          EXPECT_NEAR(checked_cost(problem, found), least, least * rounding);
          EXPECT_LE(found.lower_bound, least * (1 + rounding));
          EXPECT_LE(
              detail::AllocationBound(detail::link_weights(problem), stages, pipelines).total(),
              least * (1 + rounding));
          EXPECT_EQ(found.optimal, found.lower_bound == found.cost.total());
          optimal += found.optimal ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GE(instances, 200);
  EXPECT_EQ(optimal, instances) << "branch and bound ends on networks of this size";
}

TEST(Allocate, is_what_the_search_of_all_placements_finds_among_equal_nodes) {
  std::mt19937_64 random(27);
  for (int run = 0; run < 60; ++run) {
    const std::vector<std::vector<int>> nodes{
        {2, 2, 2, 2}, {3, 3, 2}, {4, 4}, {2, 2, 1, 1, 1, 1}, {3, 3, 3}, {5, 1, 1}, {2, 2, 2, 1}};
    const std::vector<int>& sizes = nodes[static_cast<std::size_t>(run) % nodes.size()];
    const int devices = std::accumulate(sizes.begin(), sizes.end(), 0);
    const int stages = 2 + run % 3;
    AllocationProblem problem = regions(random, sizes, stages, devices / stages);
    problem.gradient_bytes *= run % 2 == 0 ? 1 : 4;
    if (run % 3 > 0) {  // all links between nodes are alike
      const profile::Network& net = problem.network;
      for (int a = 0; a < devices; ++a) {
        for (int b = 0; b < devices; ++b) {
          if (net.rate(a, b) == 1.25e9) continue;
          const auto cell = static_cast<std::size_t>(a * devices + b);
          problem.network.latencies[cell] = 0.02;
          problem.network.rates[cell] = 2e8;
        }
      }
    }
    const Allocation found = allocate(problem);
    const double least = test::enumerated_cost(problem);
    EXPECT_NEAR(checked_cost(problem, found), least, least * rounding) << "run " << run;
    EXPECT_TRUE(found.optimal);
    // Branch and bound alone, with nothing known.
    const detail::LinkWeights weights = detail::link_weights(problem);
    const detail::DeviceOrder order = detail::device_order(weights);
    const detail::AllocationBound bound(weights, problem.stages, problem.pipelines);
    detail::AllocationBranch branch(order, bound, problem.stages, problem.pipelines);
    branch.search(2 * least, 10'000'000, [] { return false; });
    EXPECT_TRUE(branch.complete());
    const Seconds alone = detail::arrange(weights.of(order.devices), problem.stages,
                                          problem.pipelines, branch.found())
                              .cost.total();
    EXPECT_NEAR(alone, least, least * rounding) << "run " << run;
  }
}

TEST(Allocate, a_chain_keeps_count_of_what_its_states_cost) {
  std::mt19937_64 random(28);
  for (int run = 0; run < 6; ++run) {
    const int spare = run % 2 * 3;
    AllocationProblem problem = random_allocation(random, 20 + spare, 4, 5, 1000, true);
    if (run > 2) {
      problem.stage_flops = 1e12;
      for (int d = 0; d < problem.network.devices; ++d)
        problem.speeds.push_back(1e11 * static_cast<double>(1 + random() % 9));
    }
    const detail::LinkWeights weights = detail::link_weights(problem);
    std::vector<int> at(static_cast<std::size_t>(weights.size));
    std::iota(at.begin(), at.end(), 0);
    const std::vector<int> classes = at;
    detail::AllocationChain chain(weights, classes, 4, 5, at);
    detail::Draws draws(1, 0);
    const Seconds before = chain.now();
    for (const Seconds temperature : {1.0, 0.01}) {
      chain.run(draws, 3000, temperature);
      std::vector<int> sorted = chain.best_at();
      const std::vector<int> groups(sorted.begin(), sorted.begin() + 20);
      const Seconds cost = detail::match_groups(weights, 4, 5, groups).cost.total();
      EXPECT_NEAR(chain.best(), cost, cost * rounding);
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, at);
      EXPECT_LT(chain.best(), before);
    }
  }
}

TEST(Allocate, order_of_devices_changes_no_cost) {
  std::mt19937_64 random(5);
  std::vector<AllocationProblem> problems{random_allocation(random, 24, 4, 6, 1000, true),
                                          random_allocation(random, 26, 6, 4, 1000, false),
                                          random_allocation(random, 20, 4, 5, 2, true),
                                          regions(random, {8, 8, 8, 8}, 4, 8),
                                          regions(random, {9, 7, 3, 3, 3, 1}, 5, 5)};
  // Four rings of six, and two of twelve: all devices have equal lists of links, and none is like another.
  for (const int ring : {6, 12}) {
    AllocationProblem rings = random_allocation(random, 24, 4, 6, 1, true);
    for (std::size_t a = 0; a < 24; ++a) {
      const std::size_t first = a / static_cast<std::size_t>(ring) * static_cast<std::size_t>(ring);
      const std::size_t b = first + (a + 1 - first) % static_cast<std::size_t>(ring);
      rings.network.rates[a * 24 + b] = rings.network.rates[b * 24 + a] = 1e9;
    }
    problems.push_back(rings);
  }
  // A ring of five and one of seven: refinement by links sees no difference, and there is one.
  AllocationProblem mixed = random_allocation(random, 12, 3, 4, 1, true);
  for (int a = 0; a < 12; ++a) {
    const int b = a == 4 ? 0 : a == 11 ? 5 : a + 1;
    mixed.network.rates[static_cast<std::size_t>(a * 12 + b)] = 1e9;
    mixed.network.rates[static_cast<std::size_t>(b * 12 + a)] = 1e9;
  }
  problems.push_back(mixed);
  for (const AllocationProblem& problem : problems) {
    AllocationOptions options;
    options.effort = 1;
    const Allocation found = allocate(problem, options);
    std::vector<int> order(static_cast<std::size_t>(problem.network.devices));
    std::iota(order.begin(), order.end(), 0);
    for (int run = 0; run < 3; ++run) {
      std::shuffle(order.begin(), order.end(), random);
      const AllocationProblem renamed = test::reordered(problem, order);
      const detail::LinkWeights weights = detail::link_weights(renamed);
      const detail::LinkWeights first = detail::link_weights(problem);
      EXPECT_EQ(weights.of(detail::device_order(weights).devices).pp,
                first.of(detail::device_order(first).devices).pp);
      const Allocation again = allocate(renamed, options);
      EXPECT_EQ(again.cost, found.cost);
      EXPECT_EQ(again.lower_bound, found.lower_bound);
      EXPECT_EQ(again.optimal, found.optimal);
    }
  }
}

TEST(Allocate, threads_change_nothing_and_seeds_may) {
  std::mt19937_64 random(8);
  const AllocationProblem problem = random_allocation(random, 36, 6, 6, 1000, true);
  AllocationOptions options;
  options.effort = 2;
  options.threads = 1;
  const Allocation one = allocate(problem, options);
  EXPECT_EQ(one.effort, 2);
  EXPECT_FALSE(one.optimal);
  EXPECT_LT(one.lower_bound, one.cost.total());
  checked_cost(problem, one);
  for (const int threads : {2, 5}) {
    options.threads = threads;
    const Allocation more = allocate(problem, options);
    EXPECT_EQ(more.sigma, one.sigma);
    EXPECT_EQ(more.cost, one.cost);
  }
  bool differs = false;
  for (options.seed = 1; options.seed < 4; ++options.seed)
    differs = differs || allocate(problem, options).sigma != one.sigma;
  EXPECT_TRUE(differs);
}

TEST(Allocate, a_budget_ends_at_a_whole_effort_and_says_which) {
  std::mt19937_64 random(9);
  const AllocationProblem problem = random_allocation(random, 36, 6, 6, 1000, true);
  AllocationOptions options;
  options.budget = 0.3;
  const Allocation found = allocate(problem, options);
  checked_cost(problem, found);
  options.budget = 0;
  options.effort = found.effort;
  const Allocation again = allocate(problem, options);
  EXPECT_EQ(again.effort, found.effort);
  EXPECT_EQ(again.sigma, found.sigma);
  options.budget = 1e-9;
  options.effort = -1;
  EXPECT_EQ(allocate(problem, options).effort, 0);
}

TEST(Allocate, a_budget_ends_at_a_whole_effort_of_all_shapes) {
  std::mt19937_64 random(19);
  const AllocationProblem problem = random_allocation(random, 18, 3, 6, 1000, true);
  AllocationOptions options;
  options.any_shape = true;
  for (const Seconds budget : {0.05, 0.1, 0.15, 0.2}) {
    options.budget = budget;
    options.effort = -1;
    const Allocation found = allocate(problem, options);
    checked_cost(reshaped(problem, found.stages, found.pipelines), found);
    options.budget = 0;
    options.effort = found.effort;
    const Allocation again = allocate(problem, options);
    EXPECT_EQ(again.effort, found.effort);
    EXPECT_EQ(again.cost, found.cost);
    EXPECT_EQ(again.lower_bound, found.lower_bound);
    EXPECT_EQ(again.sigma, found.sigma);
  }
}

TEST(Allocate, an_effort_that_is_stopped_or_undone_leaves_what_was_known) {
  std::mt19937_64 random(20);
  const AllocationProblem problem = random_allocation(random, 18, 3, 6, 1000, true);
  const detail::LinkWeights weights = detail::link_weights(problem);
  const auto state = [](const detail::AllocationSearch& search) {
    return std::tuple(search.sigma(), search.cost(), search.lower_bound(), search.effort());
  };
  detail::AllocationSearch whole(weights, 3, 6, 0, 1);
  const auto before = state(whole);
  EXPECT_TRUE(whole.advance([] { return false; }));
  const auto after = state(whole);
  EXPECT_LT(std::get<1>(after).total(), std::get<1>(before).total());
  whole.undo();
  EXPECT_EQ(state(whole), before);
  int stopped = 0;
  for (int last = 0;;
       last = 2 * last + 1) {  // stops at the first question, at a later one, ... and never
    int asked = 0;
    detail::AllocationSearch search(weights, 3, 6, 0, 1);
    const bool finished = search.advance([&] { return asked++ >= last; });
    EXPECT_EQ(state(search), finished ? after : before) << last;
    if (finished) break;
    ++stopped;
  }
  EXPECT_GT(stopped, 3);
}

TEST(Allocate, more_effort_is_never_worse_and_is_reported) {
  std::mt19937_64 random(10);
  const AllocationProblem problem = random_allocation(random, 36, 6, 6, 1000, true);
  AllocationOptions options;
  options.effort = 3;
  std::vector<Seconds> costs;
  options.progress = [&](int effort, Seconds cost) {
    EXPECT_EQ(effort, static_cast<int>(costs.size()));
    costs.push_back(cost);
  };
  const Allocation found = allocate(problem, options);
  ASSERT_EQ(costs.size(), 4U);
  EXPECT_TRUE(std::is_sorted(costs.rbegin(), costs.rend()));
  EXPECT_EQ(costs.back(), found.cost.total());
  EXPECT_LT(costs.back(), costs.front());
}

TEST(Allocate, networks_of_few_classes_are_proven) {
  std::mt19937_64 random(11);
  const AllocationProblem halves = regions(random, {16, 16}, 8, 4);
  EXPECT_TRUE(allocate(halves).optimal);
  // Nodes of three and single devices: with four of the five stages inside nodes, one boundary alone is slow.
  AllocationProblem nodes = regions(random, {3, 3, 3, 3, 1, 1, 1, 1}, 4, 4);
  for (std::size_t cell = 0; cell < nodes.network.rates.size(); ++cell) {
    nodes.network.latencies[cell] = 0;
    if (nodes.network.rates[cell] != 1.25e9) nodes.network.rates[cell] = 1e8;
  }
  const Allocation found = allocate(nodes);
  EXPECT_TRUE(found.optimal);
  const double fast = 2 * 4.7e8 / 1.25e9;
  const double slow = 2 * 4.7e8 / 1e8;
  EXPECT_NEAR(found.cost.pipelinep, 2 * fast + slow, 1e-9);
  EXPECT_NEAR(found.cost.datap, 3 * 2 * 6.5e8 / 4 / 1e8, 1e-9);
  const detail::AllocationBound bound(detail::link_weights(nodes), 4, 4);
  ASSERT_EQ(bound.slots.size(), 3U) << "nodes have room for two of three boundaries";
  EXPECT_DOUBLE_EQ(bound.slots[1], fast);
  EXPECT_DOUBLE_EQ(bound.slots[2], slow);
}

TEST(Allocate, slow_and_small_devices_are_left_out) {
  std::mt19937_64 random(12);
  AllocationProblem problem = random_allocation(random, 7, 2, 3, 1000, true);
  problem.stage_flops = 1e15;
  problem.speeds.assign(7, 1e14);
  problem.speeds[4] = 1e12;
  const Allocation found = allocate(problem);
  EXPECT_DOUBLE_EQ(found.cost.compute, 10);
  for (const auto& pipeline : found.sigma)
    EXPECT_THAT(pipeline, testing::Not(testing::Contains(4)));
  problem.stage_bytes = 100;
  problem.memories = {100, 99, 100, 200, 100, 100, 100};
  const Allocation fits = allocate(problem);
  EXPECT_DOUBLE_EQ(fits.cost.compute, 1000) << "all others are needed";
  for (const auto& pipeline : fits.sigma) EXPECT_THAT(pipeline, testing::Not(testing::Contains(1)));
  EXPECT_NEAR(fits.cost.total(), test::enumerated_cost(problem), 1e-6);
  problem.memories[0] = 0;
  const Allocation none = allocate(problem);
  EXPECT_FALSE(none.feasible);
  EXPECT_THAT(none.why, HasSubstr("2 x 3 need 6 devices with room"));
  EXPECT_TRUE(none.sigma.empty());
}

TEST(Allocate, another_shape_computes_sends_and_holds_as_much_in_all) {
  std::mt19937_64 random(31);
  const auto from_1_to = [&](std::uint64_t most) { return 1 + static_cast<int>(random() % most); };
  for (int run = 0; run < 100; ++run) {
    AllocationProblem problem = random_allocation(random, 3, from_1_to(40), from_1_to(40), 1000, true);
    problem.directed = run % 2 == 1;
    problem.stage_flops = 1e9 * from_1_to(1000);
    problem.stage_bytes = 1e6 * from_1_to(1000);
    problem.speeds = {1e11, 2e11, 3e11};
    problem.memories = {1e10, 2e10, 3e10};
    const int stages = from_1_to(40);
    const int pipelines = from_1_to(40);
    SCOPED_TRACE(testing::Message() << problem.stages << " x " << problem.pipelines << " as " << stages << " x "
                                    << pipelines);
    const AllocationProblem other = problem.in_shape(stages, pipelines);
    const auto expect_as_much = [](const char* what, double before, double behind) {
      EXPECT_NEAR(behind, before, before * rounding) << what;
    };
    EXPECT_EQ(other.stages, stages);
    EXPECT_EQ(other.pipelines, pipelines);
    expect_as_much("FLOP of all stages and pipelines", problem.stages * problem.pipelines * problem.stage_flops,
                   stages * pipelines * other.stage_flops);
    expect_as_much("activations of all pipelines", problem.pipelines * problem.activation_bytes,
                   pipelines * other.activation_bytes);
    expect_as_much("gradients of all stages", problem.stages * problem.gradient_bytes,
                   stages * other.gradient_bytes);
    expect_as_much("memory of all stages", problem.stages * problem.stage_bytes, stages * other.stage_bytes);
    EXPECT_EQ(other.directed, problem.directed);
    EXPECT_EQ(other.speeds, problem.speeds);
    EXPECT_EQ(other.memories, problem.memories);
    EXPECT_EQ(other.network.rates, problem.network.rates);
    EXPECT_EQ(other.network.latencies, problem.network.latencies);
  }
}

TEST(Allocate, the_shape_that_it_chooses_is_the_best_of_all) {
  std::mt19937_64 random(13);
  for (int run = 0; run < 4; ++run) {
    AllocationProblem problem = random_allocation(random, 8, 2, 4, 1000, true);
    problem.activation_bytes = run % 2 == 0 ? 1e6 : 4e9;
    AllocationOptions options;
    options.any_shape = true;
    double least = std::numeric_limits<double>::infinity();
    for (const int stages : {1, 2, 4, 8}) {
      least = std::min(least, allocate(reshaped(problem, stages, 8 / stages)).cost.total());
    }
    const Allocation found = allocate(problem, options);
    EXPECT_NEAR(found.cost.total(), least, least * rounding);
    EXPECT_TRUE(found.optimal);
    EXPECT_EQ(found.stages * found.pipelines, 8);
    checked_cost(reshaped(problem, found.stages, found.pipelines), found);
  }
  // With speeds, an idle device is worth what it slows down.
  AllocationProblem uneven = random_allocation(random, 5, 2, 2, 1000, true);
  uneven.stage_flops = 1e15;
  uneven.speeds = {1e12, 1e12, 1e12, 1e12, 1e9};
  AllocationOptions options;
  options.any_shape = true;
  const Allocation found = allocate(uneven, options);
  for (const auto& pipeline : found.sigma)
    EXPECT_THAT(pipeline, testing::Not(testing::Contains(4)));
}

TEST(Allocate, the_best_of_more_shapes_than_are_kept_is_found_with_its_bound) {
  std::mt19937_64 random(21);
  for (int run = 0; run < 2; ++run) {
    AllocationProblem problem = random_allocation(random, 18, 18, 1, 1000, true);
    problem.activation_bytes /= 100;
    problem.stage_flops = run % 2 == 0 ? 1e12 : 1e11;
    for (int d = 0; d < 18; ++d)
      problem.speeds.push_back(1e11 * static_cast<double>(1 + random() % 9));
    AllocationOptions options;
    options.effort = 0;
    Seconds least = std::numeric_limits<Seconds>::infinity();
    Seconds bound = least;
    for (int stages = 1; stages <= 18; ++stages) {
      const Allocation found = allocate(reshaped(problem, stages, 18 / stages), options);
      least = std::min(least, found.cost.total());
      bound = std::min(bound, found.lower_bound);
    }
    options.any_shape = true;
    for (const std::size_t most : {1U, 64U}) {
      const detail::ShapeSearches searches(problem, options, most);
      EXPECT_NEAR(searches.best().cost(), least, least * rounding) << run << " " << most;
      EXPECT_NEAR(searches.lower_bound(), bound, bound * rounding) << run << " " << most;
    }
    const Allocation found = allocate(problem, options);
    EXPECT_NEAR(found.cost.total(), least, least * rounding);
    checked_cost(reshaped(problem, found.stages, found.pipelines), found);
  }
}

TEST(Allocate, directions_are_averaged_or_judged_as_they_are_used) {
  AllocationProblem problem;
  problem.network.devices = 2;
  problem.network.latencies = {0, 0.1, 0.3, 0};
  problem.network.rates = {1, 1e8, 3e8, 1};
  problem.stages = 2;
  problem.pipelines = 1;
  problem.activation_bytes = 6e8;
  EXPECT_NEAR(allocate(problem).cost.total(), 2 * (0.2 + 3), 1e-12);
  problem.directed = true;
  EXPECT_NEAR(allocate(problem).cost.total(), 0.1 + 6 + 0.3 + 2, 1e-12);
}

TEST(BottleneckMatching, is_the_best_of_all_permutations) {
  std::mt19937_64 random(14);
  for (int run = 0; run < 300; ++run) {
    const int size = 1 + run % 6;
    const AllocationProblem problem =
        random_allocation(random, 2 * size, 2, size, run % 3 == 0 ? 3 : 1000, true);
    const detail::LinkWeights weights = detail::link_weights(problem);
    std::vector<int> rows(static_cast<std::size_t>(size));
    std::vector<int> columns(rows.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::iota(columns.begin(), columns.end(), size);
    detail::BottleneckMatching matching(size);
    const Seconds found = matching.solve(weights, rows.data(), columns.data());
    Seconds attained = 0;
    std::vector<char> used(rows.size(), 0);
    for (int c = 0; c < size; ++c) {
      ++used[static_cast<std::size_t>(matching.row_of(c))];
      attained = std::max(attained, weights.pp_of(matching.row_of(c))[c + size]);
    }
    EXPECT_EQ(attained, found);
    EXPECT_EQ(std::count(used.begin(), used.end(), 1), size);
    Seconds least = std::numeric_limits<Seconds>::infinity();
    do {
      Seconds slowest = 0;
      for (int r = 0; r < size; ++r)
        slowest = std::max(slowest, weights.pp_of(r)[columns[static_cast<std::size_t>(r)]]);
      least = std::min(least, slowest);
    } while (std::next_permutation(columns.begin(), columns.end()));
    EXPECT_EQ(found, least);
  }
}

TEST(BottleneckMatching, takes_groups_of_more_devices_than_a_word_has_bits) {
  // Only one perfect matching is cheap: device i with size + (i + 1) % size.
  constexpr int size = 70;
  detail::LinkWeights weights(2 * size);
  std::fill(weights.pp.begin(), weights.pp.end(), 9);
  std::vector<int> rows;
  std::vector<int> columns;
  for (int i = 0; i < size; ++i) {
    rows.push_back(i);
    columns.push_back(size + i);
    weights.pp[static_cast<std::size_t>(i * 2 * size + size + (i + 1) % size)] = 1;
    weights.pp[static_cast<std::size_t>(i * 2 * size + size + i)] = i == 3 ? 0.5 : 9;
  }
  detail::BottleneckMatching matching(size);
  EXPECT_EQ(matching.solve(weights, rows.data(), columns.data()), 1);
  for (int i = 0; i < size; ++i) EXPECT_EQ(matching.row_of((i + 1) % size), i);
}

TEST(OpenPath, is_exact_to_16_stages_and_bounded_above) {
  std::mt19937_64 random(15);
  for (int size = 1; size <= 7; ++size) {
    std::vector<Seconds> edges(static_cast<std::size_t>(size * size));
    for (std::size_t a = 0; a < static_cast<std::size_t>(size); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        edges[a * static_cast<std::size_t>(size) + b] =
            edges[b * static_cast<std::size_t>(size) + a] = static_cast<double>(random() % 1000);
      }
    }
    std::vector<int> order(static_cast<std::size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    Seconds least = std::numeric_limits<Seconds>::infinity();
    do {
      least = std::min(least, detail::length_of(order, edges));
    } while (std::next_permutation(order.begin(), order.end()));
    const detail::OpenPath exact = detail::exact_open_path(size, edges);
    EXPECT_DOUBLE_EQ(exact.length, least);
    EXPECT_DOUBLE_EQ(detail::length_of(exact.order, edges), least);
    const detail::OpenPath near = detail::heuristic_open_path(size, edges);
    EXPECT_DOUBLE_EQ(detail::length_of(near.order, edges), near.length);
    EXPECT_GE(near.length, least);
    EXPECT_LE(near.bound, least);
    EXPECT_LE(near.length, 1.5 * least + 1e-9);
  }
  AllocationProblem many = random_allocation(random, 40, 20, 2, 1000, true);
  AllocationOptions options;
  options.effort = 1;
  checked_cost(many, allocate(many, options));
}

TEST(OpenPath, of_many_vertices_ends_with_its_work_whatever_the_unit) {
  std::mt19937_64 random(22);
  constexpr int size = 300;
  std::vector<double> points(size);
  for (double& point : points) point = static_cast<double>(random() % 100'000);
  std::vector<Seconds> edges;
  for (const double a : points) {
    for (const double b : points) edges.push_back(std::abs(a - b));
  }
  const detail::OpenPath found = detail::heuristic_open_path(size, edges);
  EXPECT_DOUBLE_EQ(detail::length_of(found.order, edges), found.length);
  const auto [first, last] = std::minmax_element(points.begin(), points.end());
  EXPECT_DOUBLE_EQ(found.bound, *last - *first);
  EXPECT_LT(found.length, 1.2 * found.bound);
  for (Seconds& edge : edges) edge = std::ldexp(edge, -60);
  const detail::OpenPath scaled = detail::heuristic_open_path(size, edges);
  EXPECT_EQ(scaled.order, found.order);
  EXPECT_EQ(scaled.length, std::ldexp(found.length, -60));
}

TEST(OpenPath, of_a_thousand_stages_is_found_within_bounded_work) {
  std::mt19937_64 random(23);
  const AllocationProblem problem = random_allocation(random, 1000, 1000, 1, 1000, true);
  AllocationOptions options;
  options.effort = 0;
  const Allocation found = allocate(problem, options);
  EXPECT_LE(found.lower_bound, found.cost.total());
  EXPECT_EQ(allocation_cost(problem, found.sigma), found.cost);
}

TEST(CyclicMoves,
     kernighan_lin_keeps_the_cycle_that_gains_most_and_the_published_search_the_one_before) {
  // Two fast pairs, each split over both groups: one cycle makes each pair a group.
  AllocationProblem problem;
  problem.stages = 2;
  problem.pipelines = 2;
  problem.gradient_bytes = 1e9;
  problem.network.devices = 4;
  for (const int a : {0, 0, 1, 1}) {
    for (const int b : {0, 0, 1, 1}) {
      problem.network.latencies.push_back(0);
      problem.network.rates.push_back(a == b ? 1e9 : 1e8);
    }
  }
  const std::vector<int> split{0, 1, 0, 1};
  std::vector<int> labels = split;
  detail::CyclicMoves(problem, GeneticGain::kernighan_lin).improve(labels);
  EXPECT_EQ(labels[0], labels[1]);
  EXPECT_EQ(labels[2], labels[3]);
  EXPECT_NE(labels[0], labels[2]);
  labels = split;
  detail::CyclicMoves(problem, GeneticGain::published).improve(labels);
  EXPECT_EQ(labels, split);
}

TEST(GeneticAllocation, finds_placements_that_cost_what_it_says_and_never_less_than_the_least) {
  std::mt19937_64 random(16);
  for (const GeneticGain gain : {GeneticGain::published, GeneticGain::kernighan_lin}) {
    for (const int stages : {1, 2, 3, 8}) {
      const int devices = stages == 3 ? 9 : 8;
      const AllocationProblem problem =
          random_allocation(random, devices, stages, devices / stages, 1000, true);
      GeneticOptions options;
      options.population = 20;
      options.trials = 180;
      options.gain = gain;
      const Allocation found = genetic_allocation(problem, options);
      EXPECT_EQ(found.effort, 200);
      EXPECT_FALSE(found.optimal);
      checked_cost(problem, found);
      const Seconds least = allocate(problem).cost.total();
      EXPECT_GE(found.cost.total(), least * (1 - rounding));
      EXPECT_EQ(genetic_allocation(problem, options).sigma, found.sigma);
    }
  }
}

TEST(GeneticAllocation, search_beats_its_own_beginning_and_ours_beats_it) {
  std::mt19937_64 random(17);
  const AllocationProblem problem = random_allocation(random, 36, 6, 6, 1000, true);
  GeneticOptions options;
  options.trials = 900;
  std::vector<Seconds> costs;
  options.progress = [&](int, Seconds cost) {
    costs.push_back(cost);
    return true;
  };
  const Allocation found = genetic_allocation(problem, options);
  EXPECT_EQ(costs.size(), 1000U);
  EXPECT_LT(found.cost.total(), costs[99]);
  AllocationOptions ours;
  ours.effort = 4;
  EXPECT_LT(allocate(problem, ours).cost.total(), found.cost.total());
  options.progress = [](int evaluations, Seconds) { return evaluations < 7; };
  EXPECT_EQ(genetic_allocation(problem, options).effort, 7);
}

TEST(Allocate, what_cannot_be_meant_is_refused_by_name) {
  std::mt19937_64 random(18);
  const AllocationProblem good = random_allocation(random, 4, 2, 2, 10, true);
  const auto refused = [](const AllocationProblem& problem, const std::string& text) {
    try {
      allocate(problem);
      ADD_FAILURE() << "nothing was thrown for " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
      EXPECT_THAT(error.what(), HasSubstr("fix: "));
    }
  };
  AllocationProblem bad = good;
  bad.stages = 0;
  refused(bad, "D_PP is 0");
  bad = good;
  bad.pipelines = -1;
  refused(bad, "D_DP is -1");
  bad = good;
  bad.activation_bytes = std::nan("");
  refused(bad, "c_pp_bytes is nan");
  bad = good;
  bad.gradient_bytes = -1;
  refused(bad, "c_dp_bytes is -1");
  bad = good;
  bad.network.rates[2] = 0;
  refused(bad, "the link from 0 to 2");
  bad = good;
  bad.network.latencies.pop_back();
  refused(bad, "15 latencies");
  bad = good;
  bad.speeds = {1e9};
  refused(bad, "speed has 1 numbers for 4 devices");
  bad = good;
  bad.stage_flops = 1;
  refused(bad, "stage_flops is given without speed");
  bad = good;
  bad.stage_bytes = 1;
  refused(bad, "stage_bytes is given without cap");
  const auto refused_options = [&](AllocationProblem problem, const AllocationOptions& options,
                                   const std::string& text) {
    try {
      allocate(problem, options);
      ADD_FAILURE() << "nothing was thrown for " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
      EXPECT_THAT(error.what(), HasSubstr("fix: "));
    }
  };
  AllocationOptions options;
  options.effort = -2;
  refused_options(good, options, "the effort is -2");
  options.effort = -1;
  options.any_shape = true;
  AllocationProblem many = random_allocation(random, 513, 2, 2, 10, true);
  many.speeds.assign(513, 1e9);
  many.stage_flops = 1;
  refused_options(many, options, "any shape of 513 devices");
  AllocationProblem wide = good;
  wide.stages = 1'000'000;
  wide.pipelines = 1'000'000;
  EXPECT_THAT(allocate(wide).why, HasSubstr("1000000 x 1000000 need 1000000000000 devices"));
  const auto wrong = [&](const Placement& sigma, const std::string& text) {
    try {
      allocation_cost(good, sigma);
      ADD_FAILURE() << "nothing was thrown for " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  wrong({{0, 1}}, "sigma has 1 pipelines of 2");
  wrong({{0, 1}, {2}}, "pipeline 1 has 1 stages");
  wrong({{0, 1}, {2, 4}}, "there is no device 4");
  wrong({{0, 1}, {2, 1}}, "device 1 is used twice");
  AllocationProblem more = random_allocation(random, 5, 2, 2, 10, true);
  EXPECT_THROW(genetic_allocation(more), OptionError);
}

}  // namespace
}  // namespace reef::plan
