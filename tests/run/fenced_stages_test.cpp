// Stages of uneven ranks on uneven links: shares and orders that can be worked out by hand.

#include <reef/run/fenced_stages.hpp>
#include <reef/run/stage_memory.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/estimate.hpp>

#include "chain_dag.hpp"

namespace reef::test {
namespace {

using run::FencedStages;
using run::RankFigures;
using testing::ElementsAre;

/// Links that take no time between so many ranks.
profile::Network free_links(int ranks) {
  const auto cells = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  return {ranks, std::vector<Seconds>(cells, 0), std::vector<double>(cells, 1e18), {}};
}

/// How many nodes each rank has.
std::vector<int> nodes_of_ranks(const FencedStages& found) {
  std::vector<int> nodes(static_cast<std::size_t>(found.topology.ranks()));
  for (int rank = 0; rank < found.topology.ranks(); ++rank) {
    const auto stage = static_cast<std::size_t>(found.topology.stage_of(rank));
    nodes[static_cast<std::size_t>(rank)] = found.topology.bounds[stage + 1] - found.topology.bounds[stage];
  }
  return nodes;
}

std::string what_refuses(const graph::Dag& dag, const run::Topology& topology, const RankFigures& ranks) {
  try {
    const std::vector<Seconds> times(static_cast<std::size_t>(dag.node_count()), 1.0);
    run::fenced_stages(dag, times, topology, ranks, 4);
  } catch (const OptionError& error) {
    return error.what();
  }
  return "nothing";
}

const std::vector<std::int64_t> nine(9, 16);
const std::vector<Seconds> ones(9, 1.0);

TEST(FencedStages, a_rank_of_half_the_speed_runs_half_as_many_operations) {
  const graph::Dag dag = chain_of_widths(nine);
  const FencedStages found =
      run::fenced_stages(dag, ones, run::Topology(1, 2), {{1, 0.5}, {}, free_links(2)}, 8);
  EXPECT_THAT(nodes_of_ranks(found), ElementsAre(6, 3));
  EXPECT_NEAR(found.time.bottleneck, 6, 1e-9);
  EXPECT_NEAR(found.time.pipelined, 6 + 6 + 7 * 6, 1e-9) << "sum + (n_b - 1) bottleneck";
  EXPECT_THAT(found.spare, ElementsAre());
}

TEST(FencedStages, a_slow_link_is_where_few_bytes_cross) {
  std::vector<std::int64_t> widths(9, 250'000);  // 1 MB
  widths[2] = 250;
  const graph::Dag dag = chain_of_widths(widths);
  RankFigures ranks{{}, {}, free_links(3)};
  for (const std::size_t link : {2U, 5U, 6U, 7U}) ranks.links.rates[link] = 1e5;  // of rank 2: 1 MB in 10 s
  const FencedStages found = run::fenced_stages(dag, ones, run::Topology(1, 3), ranks, 8);
  EXPECT_THAT(found.topology.bounds, ElementsAre(0, 3, 6, 9));
  EXPECT_EQ(found.topology.rank(0, 0), 2);
}

TEST(FencedStages, the_slower_direction_of_a_link_counts) {
  std::vector<std::int64_t> widths(8, 250'000);
  const graph::Dag dag = chain_of_widths(widths);
  RankFigures ranks{{}, {}, free_links(3)};
  ranks.links.rates[1] = 1e4;  // from 0 to 1 alone: gradients would take it, were 1 before 0
  const FencedStages found =
      run::fenced_stages(dag, std::vector<Seconds>(8, 1.0), run::Topology(1, 3), ranks, 8);
  EXPECT_EQ(found.topology.rank(0, 1), 2) << "no stage of rank 0 is beside one of rank 1";
}

TEST(FencedStages, equal_ranks_on_free_links_have_a_slowest_stage_at_most_as_slow_as_that_of_chunk_bounds) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const int nodes = 6 + static_cast<int>(seed % 7);
    const graph::Dag dag = chain_with_skips(nodes, seed);
    const std::vector<Seconds> times = random_times(nodes, seed);
    for (int stages = 1; stages <= 4; ++stages) {
      const FencedStages found =
          run::fenced_stages(dag, times, run::Topology(1, stages), {{}, {}, free_links(stages)}, 4);
      // Their links cost nothing, so that a narrow border is worth no time to them.
      const Seconds own = slowest(times, found.topology.bounds);
      const Seconds narrow = slowest(times, run::chunk_bounds(dag, times, stages));
      EXPECT_LE(own, narrow + 1e-9) << "seed " << seed << ", " << stages << " stages";
      EXPECT_GE(own * (1 + run::narrow_border_tolerance), narrow - 1e-9) << "seed " << seed << ", " << stages << " stages";
      EXPECT_NO_THROW(found.topology.validate_bounds(nodes));
    }
  }
}

TEST(FencedStages, a_rank_that_slows_the_step_down_has_the_least_and_is_named) {
  const graph::Dag dag = chain_of_widths(nine);
  const FencedStages found =
      run::fenced_stages(dag, ones, run::Topology(1, 3), {{1, 1, 0.2}, {}, free_links(3)}, 8);
  EXPECT_EQ(nodes_of_ranks(found)[2], 1);
  EXPECT_THAT(found.spare, ElementsAre(2));
  EXPECT_NEAR(found.time_without, 9 + 7 * 5, 1e-9) << "5 and 4 nodes";
  EXPECT_NEAR(found.time.pipelined, 8 + 5 + 7 * 5, 1e-9) << "8 nodes on two ranks, one that takes 5";
}

TEST(FencedStages, ranks_of_a_stage_stay_together_and_the_slowest_of_them_counts) {
  const graph::Dag dag = chain_of_widths(nine);
  run::Topology given(2, 2);
  given.rank_at = {0, 3, 1, 2};  // stages of ranks 0 and 1, 3 and 2
  const FencedStages found =
      run::fenced_stages(dag, ones, given, {{1, 1, 0.5, 1}, {}, free_links(4)}, 8);
  EXPECT_THAT(nodes_of_ranks(found), ElementsAre(6, 6, 3, 3));
  EXPECT_EQ(found.topology.replica_of(0), 0);
  EXPECT_EQ(found.topology.replica_of(3), 0);
}

TEST(FencedStages, a_stage_holds_no_more_than_its_rank_has_memory_for) {
  const graph::Dag dag = chain_of_widths(nine);
  Bytes node = 0;
  for (const auto& entry : graph::workload(dag).operators) {
    node = std::max(node, entry.parameter_bytes + 3 * entry.gradient_bytes + 2 * entry.saved_bytes);
  }
  const run::Topology two(1, 2);
  const FencedStages found = run::fenced_stages(dag, ones, two, {{}, {1_MiB, 2 * node}, free_links(2)}, 8);
  EXPECT_THAT(nodes_of_ranks(found), ElementsAre(7, 2));
  EXPECT_THAT(what_refuses(dag, two, {{}, {node, 2 * node}, free_links(2)}),
              testing::AllOf(testing::HasSubstr("does not fit 2 stages"), testing::HasSubstr("fix:")));
}

/// What placing finds beside what operators say: more for each stage, for what crosses its borders, and in proportion.
Bytes placed_bytes(const graph::Dag& dag, int first, int end, int held, std::uint64_t seed) {
  const profile::Profile workload = graph::workload(dag);
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  Bytes bytes = 1000 + seed % 7 * 300 + 2 * (crossing[static_cast<std::size_t>(first)] + crossing[static_cast<std::size_t>(end)]);
  for (int n = first; n < end; ++n) {
    const auto& entry = workload.operators[static_cast<std::size_t>(n)];
    bytes += 5 * entry.parameter_bytes + static_cast<Bytes>(held) * entry.saved_bytes + (n + seed) % 3 * 100;
  }
  return bytes;
}

/// By rank, of a topology of one replica that runs as 1F1B.
run::StageNeeds needs_of(const graph::Dag& dag, std::uint64_t seed, int& asked) {
  return [&dag, seed, &asked](const run::Topology& topology) {
    ++asked;
    std::vector<Bytes> bytes(static_cast<std::size_t>(topology.ranks()));
    for (int stage = 0; stage < topology.stages; ++stage) {
      const auto s = static_cast<std::size_t>(stage);
      bytes[static_cast<std::size_t>(topology.rank(0, stage))] =
          placed_bytes(dag, topology.bounds[s], topology.bounds[s + 1], topology.stages - stage, seed);
    }
    return bytes;
  };
}

/// Whether any cut anywhere over ranks in any order fits their memory.
bool any_fits(const graph::Dag& dag, const std::vector<Bytes>& memories, std::uint64_t seed) {
  const int stages = static_cast<int>(memories.size());
  std::vector<std::size_t> order(memories.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::function<bool(int, int)> rest_fits = [&](int stage, int first) {
    if (stage == stages) return first == dag.node_count();
    for (int end = first + 1; end <= dag.node_count(); ++end) {
      if (placed_bytes(dag, first, end, stages - stage, seed) > memories[order[static_cast<std::size_t>(stage)]]) continue;
      if (rest_fits(stage + 1, end)) return true;
    }
    return false;
  };
  do {
    if (rest_fits(0, 0)) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

TEST(FencedStages, a_layout_that_fits_by_what_was_placed_is_found_where_there_is_one) {
  int found = 0;
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const int nodes = 6 + static_cast<int>(seed % 9);
    const int stages = 2 + static_cast<int>(seed % 3);
    const graph::Dag dag = chain_with_skips(nodes, seed);
    Bytes all = 0;
    for (int n = 0; n < nodes; ++n) all += placed_bytes(dag, n, n + 1, 1, seed);
    RankFigures ranks{{}, {}, free_links(stages)};
    for (int rank = 0; rank < stages; ++rank) {
      const std::uint64_t draw = random_bits({seed, 2, 0, 0}, static_cast<std::uint64_t>(rank)) % 100;
      ranks.memories.push_back(all * (15 + draw * 7 / 10) / 100 / static_cast<std::uint64_t>(stages));
    }
    int asked = 0;
    const run::StageNeeds needs = needs_of(dag, seed, asked);
    const bool is_there = any_fits(dag, ranks.memories, seed);
    try {
      const FencedStages layout = run::fenced_stages(dag, random_times(nodes, seed), run::Topology(1, stages), ranks, 8, needs);
      const std::vector<Bytes> taken = needs(layout.topology);
      for (std::size_t rank = 0; rank < taken.size(); ++rank) EXPECT_LE(taken[rank], ranks.memories[rank]) << "seed " << seed;
      EXPECT_TRUE(is_there) << "seed " << seed;
      ++found;
    } catch (const OptionError& error) {
      EXPECT_FALSE(is_there) << "seed " << seed << ": " << error.what();
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("rank "), testing::HasSubstr(" needs "), testing::HasSubstr(" of "),
                                               testing::HasSubstr("operators 'n"), testing::HasSubstr("fix:")));
      ++refused;
    }
    EXPECT_LE(asked, 2 * 48 + 1) << "seed " << seed;
  }
  EXPECT_GT(found, 20) << "of 120";
  EXPECT_GT(refused, 20) << "of 120";
}

TEST(FencedStages, what_fits_is_asked_for_once_and_is_the_layout_without_bounds) {
  const graph::Dag dag = chain_of_widths(nine);
  int asked = 0;
  const run::StageNeeds needs = needs_of(dag, 0, asked);
  const RankFigures ranks{{1, 0.5}, {1_MiB, 1_MiB}, free_links(2)};
  const FencedStages found = run::fenced_stages(dag, ones, run::Topology(1, 2), ranks, 8, needs);
  EXPECT_THAT(nodes_of_ranks(found), ElementsAre(6, 3));
  EXPECT_EQ(asked, 1);
}

TEST(FencedStages, replicas_of_a_stage_fit_where_the_one_that_needs_most_fits_the_one_with_least) {
  const graph::Dag dag = chain_of_widths(nine);
  const run::StageNeeds needs = [](const run::Topology& topology) {
    std::vector<Bytes> bytes(4);
    for (int rank = 0; rank < 4; ++rank) {
      const auto stage = static_cast<std::size_t>(topology.stage_of(rank));
      bytes[static_cast<std::size_t>(rank)] = static_cast<Bytes>(100 * (topology.bounds[stage + 1] - topology.bounds[stage]));
    }
    return bytes;
  };
  const RankFigures ranks{{}, {1000, 450, 1000, 210}, free_links(4)};  // ranks 1 and 3 are a stage
  const FencedStages found = run::fenced_stages(dag, ones, run::Topology(2, 2), ranks, 8, needs);
  EXPECT_THAT(nodes_of_ranks(found), ElementsAre(7, 2, 7, 2));
}

TEST(StageMemory, foresees_by_what_is_known_of_similar_parts_and_no_less_than_a_part_of_them_takes) {
  const graph::Dag dag = chain_of_widths(nine);
  run::StageMemory memory(dag, {0, 3, 6, 9}, 2, 4);
  EXPECT_EQ(memory.stages(), 2);
  EXPECT_EQ(memory.parts(), 3);
  const Bytes one = memory.foreseen(0, {0, 1});
  const Bytes two = memory.foreseen(0, {0, 2});
  EXPECT_GT(two, one);
  EXPECT_GT(one, memory.foreseen(1, {0, 1})) << "the last stage holds one micro-batch";
  memory.record(0, {0, 1}, one + 1000);
  EXPECT_EQ(memory.foreseen(0, {0, 1}), one + 1000);
  EXPECT_EQ(memory.foreseen(0, {0, 2}), two + 1000) << "as far off";
  memory.record(0, {1, 2}, 1_MiB);
  EXPECT_GE(memory.foreseen(0, {0, 2}), 1_MiB) << "it has that part";
  memory.record(0, {0, 3}, 1_MiB + 100);
  EXPECT_LE(memory.foreseen(0, {1, 3}), 1_MiB + 100) << "it is a part of that";
  EXPECT_EQ(memory.foreseen(1, {0, 1}), memory.foreseen(1, {1, 2})) << "of another stage nothing is known";
}

TEST(FencedStages, figures_of_other_ranks_and_more_stages_than_nodes_are_refused) {
  const graph::Dag dag = chain_of_widths({16, 16, 16});
  EXPECT_THAT(what_refuses(dag, run::Topology(1, 2), {{1, 1, 1}, {}, free_links(2)}), testing::HasSubstr("3 speeds"));
  EXPECT_THAT(what_refuses(dag, run::Topology(1, 2), {{}, {}, free_links(3)}),
              testing::HasSubstr("a network of 3 for 2 ranks"));
  EXPECT_THAT(what_refuses(dag, run::Topology(1, 2), {{1, 0}, {}, free_links(2)}), testing::HasSubstr("speed 0"));
  EXPECT_THAT(what_refuses(dag, run::Topology(1, 4), {{}, {}, free_links(4)}),
              testing::HasSubstr("4 chunks of a model of 3 nodes"));
}

}  // namespace
}  // namespace reef::test
