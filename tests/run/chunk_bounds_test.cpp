#include <reef/run/chunk_bounds.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "chain_dag.hpp"

namespace reef::test {
namespace {

/// All ways to cut [0, nodes) into so many chunks at some of those positions.
std::vector<std::vector<int>> all_bounds(int nodes, const std::vector<int>& positions, int chunks) {
  std::vector<std::vector<int>> open{{0}};
  for (int chunk = 1; chunk < chunks; ++chunk) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& bounds : open) {
      for (const int cut : positions) {
        if (cut <= bounds.back()) continue;
        longer.push_back(bounds);
        longer.back().push_back(cut);
      }
    }
    open = std::move(longer);
  }
  for (std::vector<int>& bounds : open) bounds.push_back(nodes);
  return open;
}

Bytes bytes_over(const graph::Dag& dag, const std::vector<int>& bounds) {
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  Bytes sum = 0;
  for (std::size_t i = 1; i + 1 < bounds.size(); ++i)
    sum += crossing[static_cast<std::size_t>(bounds[i])];
  return sum;
}

/// Where no more bytes cross than on either side.
std::vector<int> narrow_positions(const graph::Dag& dag) {
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  std::vector<int> positions;
  for (int c = 1; c < dag.node_count(); ++c) {
    const auto at = static_cast<std::size_t>(c);
    const bool before = c == 1 || crossing[at] <= crossing[at - 1];
    const bool behind = c + 1 == dag.node_count() || crossing[at] <= crossing[at + 1];
    if (before && behind) positions.push_back(c);
  }
  return positions;
}

TEST(ChunkBounds,
     of_cuts_within_a_tenth_of_the_fastest_have_the_fewest_bytes_and_are_the_fastest_of_these) {
  int narrower = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const int nodes = 6 + static_cast<int>(seed % 9);
    const graph::Dag dag = chain_with_skips(nodes, seed);
    const std::vector<Seconds> times = random_times(nodes, seed);
    const std::vector<int> positions = narrow_positions(dag);
    for (int chunks = 1; chunks <= 4; ++chunks) {
      if (static_cast<int>(positions.size()) < chunks - 1) continue;
      const std::vector<std::vector<int>> all = all_bounds(nodes, positions, chunks);
      Seconds fastest = 1e300;
      for (const std::vector<int>& other : all) fastest = std::min(fastest, slowest(times, other));
      Bytes fewest = std::numeric_limits<Bytes>::max();
      Seconds fastest_of_fewest = 0;
      Bytes of_fastest = fewest;
      for (const std::vector<int>& other : all) {
        const Seconds time = slowest(times, other);
        const Bytes bytes = bytes_over(dag, other);
        if (time == fastest) of_fastest = std::min(of_fastest, bytes);
        if (time > fastest * 1.1 || bytes > fewest) continue;
        fastest_of_fewest = bytes < fewest ? time : std::min(fastest_of_fewest, time);
        fewest = bytes;
      }
      const std::vector<int> bounds = run::chunk_bounds(dag, times, chunks);
      const std::string where =
          "seed " + std::to_string(seed) + ", " + std::to_string(chunks) + " chunks";
      ASSERT_EQ(bounds.size(), static_cast<std::size_t>(chunks) + 1) << where;
      EXPECT_THAT(all, testing::Contains(bounds)) << where;
      EXPECT_EQ(bytes_over(dag, bounds), fewest) << where;
      EXPECT_DOUBLE_EQ(slowest(times, bounds), fastest_of_fewest)
          << where << ", of which the fastest takes " << fastest;
      narrower += fewest < of_fastest ? 1 : 0;
    }
  }
  EXPECT_GT(narrower, 5) << "hardly a case in which bytes and balance differ";
}

TEST(ChunkBounds, a_wide_border_is_taken_where_narrow_ones_cost_more_than_a_tenth) {
  const graph::Dag dag = chain_of_widths({8, 32, 16, 32, 8, 8});
  EXPECT_EQ(run::narrow_positions(dag, 2), (std::vector<int>{1, 3, 5, 6}));
  EXPECT_EQ(run::chunk_bounds(dag, {1, 1, 1, 1, 1, 1}, 2), (std::vector<int>{0, 3, 6}))
      << "others take 5, not 3";
  EXPECT_EQ(run::chunk_bounds(dag, {30, 1, 1, 1, 1, 30}, 2), (std::vector<int>{0, 5, 6}))
      << "34, not 32, and half the bytes";
}

TEST(ChunkBounds, with_too_few_narrow_positions_any_is_taken) {
  const graph::Dag dag = chain_with_skips(9, 3);
  const std::vector<Seconds> times(9, 1.0);
  const std::vector<int> bounds = run::chunk_bounds(dag, times, 9);
  EXPECT_EQ(bounds, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(ChunkBounds, segments_between_cuts_are_of_the_chunk_that_they_lie_in) {
  EXPECT_EQ(run::chunks_between({0, 2, 3, 5, 9}, {0, 3, 9}), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(run::chunks_between({0, 9}, {0, 9}), (std::vector<int>{0}));
  EXPECT_TRUE(run::chunks_between({0, 2, 9}, {}).empty()) << "as the topology has them";
}

TEST(ChunkBounds, more_chunks_than_nodes_are_refused) {
  const graph::Dag dag = chain_with_skips(4, 1);
  try {
    run::chunk_bounds(dag, std::vector<Seconds>(4, 1.0), 5);
    FAIL();
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("5 chunks of a model of 4 nodes"));
  }
}

}  // namespace
}  // namespace reef::test
