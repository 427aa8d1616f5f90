#include <reef/plan/swarm.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "../support/swarms.hpp"

namespace reef::test {
namespace {

using plan::Swarm;
using plan::SwarmServer;
using plan::Throughput;

/// Blocks, and of each server its room and requests a second.
Swarm swarm_of(int blocks, const std::vector<std::pair<int, double>>& servers) {
  Swarm swarm;
  swarm.blocks = blocks;
  for (const auto& [length, rate] : servers) {
    swarm.servers.push_back({"s" + std::to_string(swarm.servers.size()), SwarmServer::nowhere,
                             length, plan::to_throughput(rate)});
  }
  return swarm;
}

/// The solution of a square system, or nothing where there is not one.
std::vector<double> solve(std::vector<std::vector<double>> rows) {
  const std::size_t n = rows.size();
  for (std::size_t c = 0; c < n; ++c) {
    const auto pivot = std::max_element(
        rows.begin() + static_cast<std::ptrdiff_t>(c), rows.end(),
        [c](const auto& a, const auto& b) { return std::abs(a[c]) < std::abs(b[c]); });
    if (std::abs((*pivot)[c]) < 1e-9) return {};
    std::swap(rows[c], *pivot);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == c) continue;
      const double factor = rows[r][c] / rows[c][c];
      for (std::size_t k = c; k <= n; ++k) rows[r][k] -= factor * rows[c][k];
    }
  }
  std::vector<double> solution;
  for (std::size_t c = 0; c < n; ++c) solution.push_back(rows[c][n] / rows[c][c]);
  return solution;
}

/// The linear relaxation as it is written: of each server x[s] >= 0 for each start, in all its throughput; the most T below
/// all t[i]. By trying all vertices: as many constraints with equality as there are unknowns.
class Vertices {
public:
  explicit Vertices(const Swarm& swarm) {
    std::size_t unknowns = 1;  // T is the first
    for (const SwarmServer& server : swarm.servers)
      unknowns += static_cast<std::size_t>(swarm.blocks - server.length + 1);
    blocks_.assign(static_cast<std::size_t>(swarm.blocks), std::vector<double>(unknowns + 1, 0));
    for (auto& block : blocks_) block[0] = -1;
    std::size_t unknown = 1;
    for (const SwarmServer& server : swarm.servers) {
      std::vector<double> whole(unknowns + 1, 0);
      whole.back() = plan::per_second(server.throughput);
      for (int start = 0; start + server.length <= swarm.blocks; ++start, ++unknown) {
        whole[unknown] = 1;
        for (int i = start; i < start + server.length; ++i)
          blocks_[static_cast<std::size_t>(i)][unknown] = 1;
        std::vector<double> none(unknowns + 1, 0);
        none[unknown] = 1;
        blocks_.push_back(none);
      }
      servers_.push_back(whole);
    }
    unknowns_ = unknowns;
  }

  /// How many ways there are to choose constraints.
  [[nodiscard]] double count() const {
    double ways = 1;
    const std::size_t chosen = unknowns_ - servers_.size();
    for (std::size_t k = 0; k < chosen; ++k)
      ways *= static_cast<double>(blocks_.size() - k) / static_cast<double>(k + 1);
    return ways;
  }

  double most() {
    best_ = -1;
    std::vector<std::vector<double>> rows = servers_;
    choose(0, rows);
    return best_;
  }

private:
  void choose(std::size_t next, std::vector<std::vector<double>>& rows) {
    if (rows.size() == unknowns_) {
      const std::vector<double> x = solve(rows);
      if (!x.empty() && x[0] > best_ && holds(x)) best_ = x[0];
      return;
    }
    if (rows.size() + blocks_.size() - next < unknowns_) return;
    rows.push_back(blocks_[next]);
    choose(next + 1, rows);
    rows.pop_back();
    choose(next + 1, rows);
  }

  [[nodiscard]] bool holds(const std::vector<double>& x) const {
    return std::all_of(blocks_.begin(), blocks_.end(), [&](const std::vector<double>& row) {
      return std::inner_product(x.begin(), x.end(), row.begin(), 0.0) > -1e-7;
    });
  }

  std::vector<std::vector<double>> servers_;  ///< equalities, with their right side
  std::vector<std::vector<double>> blocks_;   ///< of at least 0: of blocks, then of unknowns
  std::size_t unknowns_ = 0;
  double best_ = -1;
};

double bound_of(const Swarm& swarm) { return plan::per_second(plan::throughput_bound(swarm)); }

TEST(SwarmBound, is_the_linear_relaxation_of_contiguous_placement) {
  std::mt19937_64 random(1);
  int cases = 0;
  int below_the_sum = 0;
  for (int i = 0; i < 3000 && cases < 250; ++i) {
    Swarm swarm = swarm_of(2 + static_cast<int>(random() % 6), {});
    for (std::uint64_t n = 1 + random() % 4; n > 0; --n) {
      const int length = 1 + static_cast<int>(random() % static_cast<unsigned>(swarm.blocks));
      swarm.servers.push_back({"s" + std::to_string(n), SwarmServer::nowhere, length,
                               plan::to_throughput(static_cast<double>(1 + random() % 100))});
    }
    Vertices vertices(swarm);
    if (vertices.count() > 4000) continue;
    ++cases;
    double even = 0;
    for (const SwarmServer& server : swarm.servers)
      even += plan::per_second(server.throughput) * server.length / swarm.blocks;
    const double bound = bound_of(swarm);
    EXPECT_NEAR(bound, vertices.most(), 2e-6)
        << swarm.blocks << " blocks, " << swarm.servers.size() << " servers, case " << i;
    EXPECT_LE(bound, even + 1e-9);
    below_the_sum += bound < even - 1e-3 ? 1 : 0;
  }
  EXPECT_EQ(cases, 250);
  EXPECT_GT(below_the_sum, 50) << "cases that the sum over blocks would pass too";
}

TEST(SwarmBound, of_spans_of_one_length_is_their_throughput_over_how_many_cover_the_model) {
  EXPECT_EQ(bound_of(swarm_of(70, {{24, 90}})), 30) << "24 / 70 of it lie nowhere";
  EXPECT_EQ(bound_of(swarm_of(70, {{35, 30}, {35, 10}})), 20);
  EXPECT_EQ(bound_of(swarm_of(10'000, {{9'999, 5}})), 2.5);
  EXPECT_EQ(bound_of(swarm_of(10'000, {{10'000, 5}})), 5);
  EXPECT_EQ(bound_of(swarm_of(3, {{2, 0.000001}})), 0) << "rounded down";
  EXPECT_EQ(bound_of(swarm_of(3, {})), 0);
}

TEST(SwarmBound, of_spans_that_do_not_fill_the_model_together_is_less_than_the_sum_over_blocks) {
  // Eight blocks; who has room for 5 is not completed by who has room for 4, or 6, but by 3 alone.
  EXPECT_EQ(bound_of(swarm_of(8, {{5, 40}, {4, 30}})), 35)
      << "two of them, whichever: the sum over blocks says 40";
  EXPECT_EQ(bound_of(swarm_of(8, {{5, 40}, {3, 40}})), 40);
  EXPECT_EQ(bound_of(swarm_of(8, {{5, 40}, {3, 20}})), 30);
  // Offline servers and those without throughput count nothing.
  Swarm swarm = swarm_of(8, {{5, 40}, {3, 40}, {8, 7}, {1, 0}});
  swarm.servers[2].state = plan::ServerState::offline;
  EXPECT_EQ(bound_of(swarm), 40);
}

TEST(SwarmBound, is_reached_by_no_placement_and_is_the_same_in_any_order_of_servers) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 40; ++i) {
    Swarm swarm = random_swarm(random, 5 + i % 4, 4);
    std::vector<Throughput> blocks(static_cast<std::size_t>(swarm.blocks), 0);
    Throughput most = 0;
    const auto place = [&](const auto& self, std::size_t server) -> void {
      if (server == swarm.servers.size()) {
        most = std::max(most, plan::slowest_block(blocks));
        return;
      }
      const SwarmServer& own = swarm.servers[server];
      for (int start = 0; start + own.length <= swarm.blocks; ++start) {
        plan::add_to_blocks(blocks, start, own.length, own.throughput);
        self(self, server + 1);
        plan::add_to_blocks(blocks, start, own.length, -own.throughput);
      }
    };
    place(place, 0);
    const Throughput bound = plan::throughput_bound(swarm);
    EXPECT_GE(bound, most);
    std::shuffle(swarm.servers.begin(), swarm.servers.end(), random);
    EXPECT_EQ(plan::throughput_bound(swarm), bound);
  }
}

TEST(SwarmBound, of_swarms_of_any_size_is_found_and_at_most_the_sum_over_blocks) {
  std::mt19937_64 random(5);
  for (const auto& [blocks, servers, longest] : std::vector<std::array<int, 3>>{
           {70, 206, 10}, {80, 500, 80}, {400, 400, 133}, {10'000, 2'000, 3'000}}) {
    Swarm swarm = swarm_of(blocks, {});
    double even = 0;
    for (int i = 0; i < servers; ++i) {
      const int length = 1 + static_cast<int>(random() % static_cast<unsigned>(longest));
      const double rate = static_cast<double>(random() % 100'000) / 1000;
      swarm.servers.push_back(
          {"s" + std::to_string(i), SwarmServer::nowhere, length, plan::to_throughput(rate)});
      even += rate * length / blocks;
    }
    const double bound = bound_of(swarm);
    EXPECT_LE(bound, even + 1e-6) << blocks;
    EXPECT_GT(bound, 0.9 * even) << blocks;
  }
}

}  // namespace
}  // namespace reef::test
