#include <reef/plan/detail/structural_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace reef::plan::detail {
namespace {

/// Figures of vertices, and of what leads from one to another.
struct Structure {
  std::vector<std::uint64_t> vertices;
  std::vector<std::uint64_t> pairs;

  explicit Structure(std::size_t n, std::uint64_t pair = 7) : vertices(n, 1), pairs(n * n, pair) {}

  std::uint64_t& pair(std::size_t a, std::size_t b) { return pairs[a * vertices.size() + b]; }
  void join(std::size_t a, std::size_t b, std::uint64_t as) { pair(a, b) = pair(b, a) = as; }

  /// The same with its vertices in another order; the diagonal, which is never read, has anything.
  [[nodiscard]] Structure in(const std::vector<int>& order, std::uint64_t diagonal = 0) const {
    const std::size_t n = vertices.size();
    Structure result(n);
    for (std::size_t a = 0; a < n; ++a) {
      const auto from = static_cast<std::size_t>(order[a]);
      result.vertices[a] = vertices[from];
      for (std::size_t b = 0; b < n; ++b)
        result.pair(a, b) =
            a == b ? diagonal : pairs[from * n + static_cast<std::size_t>(order[b])];
    }
    return result;
  }

  friend bool operator==(const Structure&, const Structure&) = default;
};

/// What the order makes of it.
Structure sorted(const Structure& structure) {
  return structure.in(StructuralOrder(structure.vertices, structure.pairs).order());
}

std::vector<std::pair<std::string, Structure>> structures() {
  std::vector<std::pair<std::string, Structure>> all;
  Structure two_rings(12);  // of five and of seven: refinement sees no difference
  for (std::size_t v = 0; v < 12; ++v) two_rings.join(v, v == 4 ? 0 : v == 11 ? 5 : v + 1, 9);
  all.emplace_back("rings", two_rings);
  Structure way(6);  // a ring that has a direction
  for (std::size_t v = 0; v < 6; ++v) way.pair(v, (v + 1) % 6) = 9;
  all.emplace_back("a ring one way", way);
  Structure pairs(24);  // pairs of pairs of pairs, all alike
  for (std::size_t a = 0; a < 24; ++a) {
    for (std::size_t b = 0; b < a; ++b)
      pairs.join(a, b, a / 2 == b / 2 ? 3 : a / 4 == b / 4 ? 4 : a / 8 == b / 8 ? 5 : 6);
  }
  all.emplace_back("pairs of pairs", pairs);
  std::mt19937_64 random(5);
  for (int run = 0; run < 20; ++run) {
    Structure drawn(9);
    for (std::uint64_t& vertex : drawn.vertices) vertex = random() % 2;
    for (std::uint64_t& pair : drawn.pairs) pair = random() % 2;
    all.emplace_back("drawn", drawn);
  }
  return all;
}

TEST(StructuralOrder, the_same_structure_comes_out_however_its_vertices_are_numbered) {
  std::mt19937_64 random(6);
  for (const auto& [name, structure] : structures()) {
    std::vector<int> order(structure.vertices.size());
    std::iota(order.begin(), order.end(), 0);
    const Structure first = sorted(structure);
    for (int run = 0; run < 5; ++run) {
      std::shuffle(order.begin(), order.end(), random);
      EXPECT_EQ(sorted(structure.in(order, random())), first) << name;
    }
  }
}

TEST(StructuralOrder, vertices_are_one_group_where_a_swap_changes_nothing) {
  // 0 and 3 are alike; 1 and 2 are, but for what leads from one to the other.
  Structure structure(4);
  structure.pair(1, 2) = 8;
  std::vector<std::vector<int>> groups =
      StructuralOrder(structure.vertices, structure.pairs).groups();
  std::sort(groups.begin(), groups.end());
  EXPECT_EQ(groups, (std::vector<std::vector<int>>{{0, 3}, {1}, {2}}));
  structure.pair(2, 1) = 8;
  EXPECT_EQ(StructuralOrder(structure.vertices, structure.pairs).groups().size(), 2U);
  structure.vertices[3] = 2;
  EXPECT_EQ(StructuralOrder(structure.vertices, structure.pairs).groups().size(), 3U);
}

TEST(StructuralOrder, many_that_are_alike_are_sorted_without_a_search) {
  constexpr std::size_t n = 800;  // pairs, all alike: told apart one by one they would take minutes
  Structure structure(n);
  for (std::size_t v = 0; v < n; v += 2) structure.join(v, v + 1, 9);
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
  EXPECT_EQ(sorted(structure.in(order)), sorted(structure));
}

}  // namespace
}  // namespace reef::plan::detail
