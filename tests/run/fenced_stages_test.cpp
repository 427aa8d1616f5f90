// Stages of uneven ranks on uneven links: shares and orders that can be worked out by hand.

#include <reef/run/fenced_stages.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
