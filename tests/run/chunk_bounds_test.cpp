#include <reef/run/chunk_bounds.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "chain_dag.hpp"

namespace reef::test {
namespace {

/// The least that the slowest of so many chunks of [first, end) takes, cut at those positions.
Seconds least(const std::vector<Seconds>& times, const std::vector<int>& positions, int first, int chunks) {
  const int nodes = static_cast<int>(times.size());
  if (chunks == 1) return std::accumulate(times.begin() + first, times.end(), 0.0);
  Seconds best = 1e300;
  for (const int cut : positions) {
    if (cut <= first || cut >= nodes) continue;
    const Seconds here = std::accumulate(times.begin() + first, times.begin() + cut, 0.0);
    best = std::min(best, std::max(here, least(times, positions, cut, chunks - 1)));
  }
  return best;
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

TEST(ChunkBounds, no_cut_at_narrow_positions_has_a_faster_slowest_chunk) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const int nodes = 6 + static_cast<int>(seed % 7);
    const graph::Dag dag = chain_with_skips(nodes, seed);
    const std::vector<Seconds> times = random_times(nodes, seed);
    const std::vector<int> positions = narrow_positions(dag);
    for (int chunks = 1; chunks <= 4; ++chunks) {
      if (static_cast<int>(positions.size()) < chunks - 1) continue;
      const std::vector<int> bounds = run::chunk_bounds(dag, times, chunks);
      ASSERT_EQ(bounds.size(), static_cast<std::size_t>(chunks) + 1);
      EXPECT_EQ(bounds.front(), 0);
      EXPECT_EQ(bounds.back(), nodes);
      EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end(), std::less_equal<>{}) || chunks == 1);
      EXPECT_DOUBLE_EQ(slowest(times, bounds), least(times, positions, 0, chunks))
          << "seed " << seed << ", " << chunks << " chunks";
    }
  }
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
