// The rules of joining and moving against the published arithmetic in doubles, on thousands of swarms.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/plan/block_choice.hpp>
#include <reef/plan/detail/window_order.hpp>

#include "support/swarms.hpp"

namespace reef::plan {
namespace {

using test::random_swarm;
using testing::HasSubstr;

/// Every window sorted, as the rule is written down.
template <class Number>
int sorted_windows(const std::vector<Number>& t, int length) {
  std::optional<std::vector<Number>> least;
  int best = 0;
  for (int start = 0; start + length <= static_cast<int>(t.size()); ++start) {
    std::vector<Number> window(t.begin() + start, t.begin() + start + length);
    std::ranges::sort(window);
    if (least && !(window < *least)) continue;
    least = std::move(window);
    best = start;
  }
  return best;
}

/// The published decision, in doubles. `then` is what the sweeps led to.
bool published(const Swarm& swarm, int me, double quality, std::mt19937_64& random,
               std::optional<double>& then) {
  constexpr double eps = 1e-3;
  std::vector<double> t(static_cast<std::size_t>(swarm.blocks));
  std::vector<std::pair<int, int>> spans;
  const auto add = [&](int start, int length, double by) {
    for (int i = start; i < start + length; ++i) t[static_cast<std::size_t>(i)] += by;
  };
  for (const SwarmServer& server : swarm.servers)
    add(server.start, server.length, per_second(server.throughput));
  const double now = *std::ranges::min_element(t);
  std::vector<int> starts;
  for (const SwarmServer& server : swarm.servers) starts.push_back(server.start);
  const auto turn = [&](int i) {
    const SwarmServer& server = swarm.servers[static_cast<std::size_t>(i)];
    const double thr = per_second(server.throughput);
    int& start = starts[static_cast<std::size_t>(i)];
    add(start, server.length, -thr * (1 + eps));
    const int target = sorted_windows(t, server.length);
    add(start, server.length, thr * eps);
    add(target, server.length, thr);
    return std::exchange(start, target) != target;
  };
  const SwarmServer& own = swarm.servers[static_cast<std::size_t>(me)];
  const double thr = per_second(own.throughput);
  add(own.start, own.length, -thr * (1 + eps));
  if (now > eps && *std::ranges::min_element(t) <= 0) return false;
  if (sorted_windows(t, own.length) == own.start) return false;
  add(own.start, own.length, thr * (1 + eps));
  turn(me);
  std::vector<int> order(swarm.servers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  for (bool moved = true; moved;) {
    moved = false;
    std::ranges::shuffle(order, random);
    for (const int i : order) moved |= turn(i);
  }
  then = *std::ranges::min_element(t);
  return *then >= now && *then >= eps && now / *then < quality - eps;
}

TEST(BestStart, is_the_first_window_in_the_order_of_sorted_lists) {
  std::mt19937_64 random(1);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int i = 0; i < 20'000; ++i) {
    std::vector<Throughput> t(static_cast<std::size_t>(draw(1, i % 100 == 0 ? 200 : 12)));
    const int most = draw(0, 1) == 0 ? 2 : 9;  // many ties, and few
    for (Throughput& block : t) block = draw(-1, most);
    const int length = draw(1, static_cast<int>(t.size()));
    ASSERT_EQ(best_start<Throughput>(t, length), sorted_windows(t, length));
  }
  EXPECT_THROW(best_start<Throughput>(std::vector<Throughput>{1, 2}, 3), OptionError);
  EXPECT_THROW(best_start<Throughput>(std::vector<Throughput>{1, 2}, 0), OptionError);
}

TEST(ShouldMove, decides_as_the_published_rule_does_in_doubles) {
  std::mt19937_64 random(2);
  int moves = 0;
  int compared = 0;
  for (int i = 0; i < 2'000; ++i) {
    const Swarm swarm = random_swarm(random, 4 + i % 20, 3 + i % 9);
    const int me = static_cast<int>(random() % swarm.servers.size());
    const double quality = i % 2 == 0 ? 0.75 : 1 / 1.2;
    std::optional<double> then;
    const bool expected = published(swarm, me, quality, random, then);
    const auto found = should_move(swarm, swarm.servers[static_cast<std::size_t>(me)].id, quality);
    EXPECT_EQ(found.then.has_value(), then.has_value()) << "swarm " << i;
    // The order of the sweeps, which is drawn, decides a few: those where all of some orders agree are compared.
    bool agreed = true;
    for (std::uint64_t order = 1; order <= 6; ++order) {
      const auto again =
          should_move(swarm, swarm.servers[static_cast<std::size_t>(me)].id, quality, order);
      agreed = agreed && again.move == found.move &&
               published(swarm, me, quality, random, then) == expected;
    }
    if (!agreed) continue;
    EXPECT_EQ(found.move, expected) << "swarm " << i;
    moves += found.move ? 1 : 0;
    ++compared;
  }
  EXPECT_GT(compared, 1'700);
  EXPECT_GT(moves, 100);
  EXPECT_GT(compared - moves, 100);
}

TEST(ShouldMove, depends_on_the_swarm_and_not_on_the_order_in_which_it_is_told) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const Swarm swarm = random_swarm(random, 20, 12);
    Swarm other = swarm;
    std::ranges::shuffle(other.servers, random);
    const auto a = should_move(swarm, "s3", 0.8);
    const auto b = should_move(other, "s3", 0.8);
    EXPECT_EQ(a.move, b.move);
    EXPECT_EQ(a.then, b.then);
    EXPECT_EQ(a.sweeps, b.sweeps);
  }
}

TEST(ShouldMove, holds_the_factor_to_the_last_unit) {
  // The one that moves brings the slowest block from 749 to 1000 and from 750 to 1000: 0.749 is not below 0.749.
  for (const auto& [slow, moves] : {std::pair{748.999999, true}, std::pair{749.0, false}}) {
    Swarm swarm;
    swarm.blocks = 2;
    const auto add = [&](const char* id, int start, double throughput) {
      swarm.servers.push_back({id, start, 1, to_throughput(throughput)});
    };
    add("a", 0, 1000);
    add("b", 0, 1000 - slow);
    add("c", 1, slow);
    const auto found = should_move(swarm, "b", 0.75);
    EXPECT_EQ(found.now, to_throughput(slow));
    EXPECT_EQ(found.then, to_throughput(1000));
    EXPECT_EQ(found.move, moves) << slow;
  }
}

TEST(ShouldMove, refuses_who_holds_no_blocks_and_what_is_no_quality) {
  std::mt19937_64 random(4);
  Swarm swarm = random_swarm(random, 6, 4);
  EXPECT_THROW(should_move(swarm, "nobody", 0.75), OptionError);
  EXPECT_THROW(should_move(swarm, "s0", -1), OptionError);
  swarm.servers[0].state = ServerState::offline;
  EXPECT_THROW(should_move(swarm, "s0", 0.75), OptionError);
  const auto refused = [](const Swarm& wrong, const char* text) {
    try {
      wrong.validate();
      ADD_FAILURE() << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  Swarm wrong = swarm;
  wrong.servers[1].id = "s2";
  refused(wrong, "two servers are called 's2'");
  wrong = swarm;
  wrong.servers[1].start = 6;
  refused(wrong, "server 's1' holds blocks that the model does not have");
  wrong = swarm;
  wrong.servers[1].throughput = -1;
  refused(wrong, "server 's1' has a throughput below 0");
  wrong.blocks = 0;
  refused(wrong, "0 blocks");
}

TEST(AdvertisedThroughput, is_what_the_slower_of_network_and_processor_serve) {
  EXPECT_EQ(advertised_throughput({30'000, 1185.5, 10, false}), 1185.5);
  EXPECT_EQ(advertised_throughput({30'000, 100'000, 10, false}), 30'000 / 5.5);
  EXPECT_EQ(advertised_throughput({30'000, std::nullopt, 3, false}), 15'000);
  EXPECT_EQ(advertised_throughput({30'000, 1000, 10, true}), 200);
  EXPECT_THROW(advertised_throughput({-1, 1, 1, false}), OptionError);
  EXPECT_THROW(advertised_throughput({1, 1, 0, false}), OptionError);
}

TEST(RatioBelow, compares_quotients_whose_products_are_no_numbers) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100'000; ++i) {
    const int bits = 1 + static_cast<int>(random() % 31);
    const auto draw = [&] { return static_cast<std::int64_t>(random() >> (64 - bits)); };
    const std::int64_t a = draw(), b = draw() + 1, p = draw(), q = draw() + 1;
    ASSERT_EQ(detail::ratio_below(a, b, p, q), a * q < p * b)
        << a << "/" << b << " " << p << "/" << q;
  }
  constexpr std::int64_t large = std::int64_t{1} << 62;
  EXPECT_TRUE(detail::ratio_below(large - 1, large, large, large + 1));
  EXPECT_FALSE(detail::ratio_below(large, large + 1, large - 1, large));
}

}  // namespace
}  // namespace reef::plan
