// Plans of few moves: equal on all servers, never worse, connected wherever rooms suffice; and the rounds in which
// servers act on them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/plan/balance.hpp>
#include <reef/plan/balance_round.hpp>

#include "support/swarms.hpp"

namespace reef::plan {
namespace {

using test::random_swarm;

Swarm after(Swarm swarm, const BalancePlan& plan) {
  for (const BalanceMove& move : plan.moves)
    swarm.servers[static_cast<std::size_t>(swarm.find(move.id))].start = move.start;
  return swarm;
}

/// The most that any placement serves.
Throughput max_served(Swarm& swarm, std::size_t server = 0) {
  if (server == swarm.servers.size()) return slowest_block(block_throughputs(swarm));
  Throughput most = 0;
  for (int start = 0; start + swarm.servers[server].length <= swarm.blocks; ++start) {
    swarm.servers[server].start = start;
    most = std::max(most, max_served(swarm, server + 1));
  }
  return most;
}

TEST(Balance, is_the_same_whatever_the_order_of_the_servers) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    Swarm swarm = random_swarm(random, 10 + i % 30, 2 + i % 25);
    for (SwarmServer& server : swarm.servers) {
      if (random() % 5 == 0) server.start = SwarmServer::nowhere;
    }
    Swarm other = swarm;
    std::ranges::shuffle(other.servers, random);
    EXPECT_EQ(balance(swarm), balance(other));
    other.servers.front().throughput += 1;
    EXPECT_NE(version_of(swarm), version_of(other));
  }
}

TEST(Balance, says_what_its_moves_lead_to) {
  std::mt19937_64 random(2);
  int moves = 0;
  for (int i = 0; i < 500; ++i) {
    const Swarm swarm = random_swarm(random, 10 + i % 30, 2 + i % 25);
    const BalancePlan plan = balance(swarm);
    EXPECT_EQ(plan.now, slowest_block(block_throughputs(swarm)));
    EXPECT_EQ(plan.then, slowest_block(block_throughputs(after(swarm, plan))));
    EXPECT_LE(plan.then, plan.bound);
    EXPECT_GE(plan.then, plan.now);
    for (const BalanceMove& move : plan.moves) {
      const int at = swarm.find(move.id);
      EXPECT_EQ(move.from, swarm.servers[static_cast<std::size_t>(at)].start);
      EXPECT_NE(move.from, move.start);
    }
    if (plan.now > 0) {
      // Each move pays its price.
      const double kept = 1 - 0.55 / static_cast<double>(swarm.servers.size());
      double worth = static_cast<double>(plan.then);
      for (std::size_t move = 0; move < plan.moves.size(); ++move) worth *= kept;
      EXPECT_GE(worth, static_cast<double>(plan.now) * (1 - 1e-6));
      moves += static_cast<int>(plan.moves.size());
    }
    const BalancePlan free = balance(swarm, {.price_ppm = 0});
    EXPECT_GE(free.then, plan.now);
  }
  EXPECT_GT(moves, 100);
}

TEST(Balance, without_a_price_comes_near_the_best_placement_of_all) {
  std::mt19937_64 random(3);
  double reached = 0;
  double best = 0;
  for (int i = 0; i < 60; ++i) {
    Swarm swarm = random_swarm(random, 6, 5);
    const BalancePlan plan = balance(swarm, {.price_ppm = 0, .targets = 8, .beam = 8});
    const Throughput most = max_served(swarm);
    EXPECT_LE(plan.then, most);
    EXPECT_GE(plan.bound, most);
    reached += per_second(plan.then);
    best += per_second(most);
  }
  EXPECT_GT(reached, 0.9 * best);
}

TEST(Balance, serves_all_blocks_wherever_rooms_suffice) {
  std::mt19937_64 random(4);
  int rooms_suffice = 0;
  for (int i = 0; i < 500; ++i) {
    Swarm swarm = random_swarm(random, 8 + i % 20, 3 + i % 8);
    if (i % 3 == 0) {
      for (SwarmServer& server : swarm.servers) server.start = SwarmServer::nowhere;
    }
    int room = 0;
    for (const SwarmServer& server : swarm.servers) room += server.length;
    const BalancePlan plan = balance(swarm);
    EXPECT_EQ(plan.then > 0, room >= swarm.blocks) << room << " of " << swarm.blocks;
    rooms_suffice += room >= swarm.blocks ? 1 : 0;
  }
  EXPECT_GT(rooms_suffice, 100);
  EXPECT_LT(rooms_suffice, 500);
}

TEST(Balance, leaves_alone_who_loads_and_who_has_not_dropped) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100; ++i) {
    Swarm swarm = random_swarm(random, 20, 8);
    swarm.servers[1].state = ServerState::joining;
    swarm.servers[2].old_start = 0;
    swarm.servers[3].state = ServerState::offline;
    const BalancePlan plan = balance(swarm, {.price_ppm = 0});
    for (const char* id : {"s1", "s2", "s3"}) EXPECT_EQ(plan.find(id), nullptr) << id;
  }
}

TEST(Balance, keeps_a_swarm_that_comes_and_goes_near_its_bound_with_few_moves) {
  std::mt19937_64 random(9);
  Swarm swarm;
  swarm.blocks = 40;
  double served = 0;
  double bound = 0;
  double server_hours = 0;
  int moves = 0;
  for (int minute = 0; minute < 240; ++minute) {
    // From 30 servers to 60, and in every fourth minute one goes and another comes.
    if (minute % 4 == 0 && !swarm.servers.empty())
      swarm.servers.erase(swarm.servers.begin() +
                          static_cast<std::ptrdiff_t>(random() % swarm.servers.size()));
    while (swarm.servers.size() < static_cast<std::size_t>(30 + minute / 8)) {
      swarm.servers.push_back({"s" + std::to_string(random()), SwarmServer::nowhere,
                               1 + static_cast<int>(random() % 10),
                               static_cast<Throughput>(random() % 100'000'001)});
    }
    const BalancePlan plan = balance(swarm);
    for (const BalanceMove& move : plan.moves) moves += move.from == SwarmServer::nowhere ? 0 : 1;
    swarm = after(swarm, plan);
    EXPECT_GT(plan.then, 0);
    served += per_second(plan.then);
    bound += per_second(plan.bound);
    server_hours += static_cast<double>(swarm.servers.size()) / 60;
  }
  // 0.910 of what no placement exceeds, and 0.607 moves in a server-hour, in which 0.33 servers go and others come.
  EXPECT_GT(served, 0.9 * bound);
  EXPECT_LT(moves, 0.63 * server_hours);
}

TEST(Balance, refuses_options_that_cannot_be) {
  std::mt19937_64 random(6);
  const Swarm swarm = random_swarm(random, 6, 4);
  EXPECT_THROW(balance(swarm, {.price_ppm = -1}), OptionError);
  EXPECT_THROW(balance(swarm, {.targets = 0}), OptionError);
  EXPECT_THROW(balance(swarm, {.beam = 0}), OptionError);
  EXPECT_THROW(balance(swarm, {.moves = 1001}), OptionError);
  EXPECT_THROW(balance({}), OptionError);
  const BalancePlan none = balance({4, {}});
  EXPECT_TRUE(none.moves.empty());
  EXPECT_EQ(none.then, 0);
}

TEST(BalanceRound, servers_that_hear_in_any_order_and_late_make_one_plan_and_never_go_to_one_gap) {
  std::mt19937_64 random(7);
  const BalanceClock clock;
  const Swarm start = random_swarm(random, 24, 14);
  std::vector<Announcement> all;
  for (const SwarmServer& server : start.servers) all.push_back({0, server});
  int moves = 0;
  for (Milliseconds round = 1; round < 60; ++round) {
    // Somebody changes at any time of the period before.
    SwarmServer& changed = all[random() % start.servers.size()].server;
    Announcement news{(round - 1) * clock.period + static_cast<Milliseconds>(random() % 60'000),
                      changed};
    for (const Announcement& said : all) {
      if (said.server.id == changed.id && said.time <= news.time) news.server = said.server;
    }
    news.server.throughput = to_throughput(static_cast<double>(random() % 100));
    all.push_back(news);
    std::optional<BalancePlan> plan;
    std::vector<Announcement> acted;
    for (const SwarmServer& server : start.servers) {
      // Each acts at a time of its own, and has heard of each announcement up to 30 s late.
      const Milliseconds now =
          clock.snapshot(round) + clock.settle + static_cast<Milliseconds>(random() % 30'000);
      std::vector<Announcement> heard;
      for (const Announcement& said : all) {
        if (said.time + static_cast<Milliseconds>(random() % 30'001) <= now) heard.push_back(said);
      }
      std::ranges::shuffle(heard, random);
      std::ranges::stable_sort(heard, {}, &Announcement::time);
      const Swarm seen = swarm_at(24, heard, clock.snapshot(clock.round(now)));
      const BalancePlan own = balance(seen);
      if (!plan) plan = own;
      ASSERT_EQ(own, *plan);
      const auto lease = lease_of(own, clock, server.id, now);
      EXPECT_EQ(lease.has_value(), own.find(server.id) != nullptr);
      if (!lease) continue;
      EXPECT_TRUE(lease->holds(now));
      EXPECT_FALSE(lease->holds(clock.snapshot(round + 1)));
      SwarmServer moved = seen.servers[static_cast<std::size_t>(seen.find(server.id))];
      moved.start = lease->move.start;
      acted.push_back({now, moved});
      ++moves;
    }
    all.insert(all.end(), acted.begin(), acted.end());
    std::ranges::stable_sort(all, {}, &Announcement::time);
    // All that was done apart comes to what the one plan foresaw, whether anybody moved or nobody.
    EXPECT_EQ(slowest_block(block_throughputs(swarm_at(24, all, clock.snapshot(round + 1)))),
              plan->then);
    EXPECT_EQ(acted.size(), plan->moves.size());
    EXPECT_GT(plan->then, 0);
  }
  EXPECT_GT(moves, 20);
}

TEST(BalanceRound, a_lease_is_void_before_and_after_its_time) {
  std::mt19937_64 random(8);
  Swarm swarm = random_swarm(random, 20, 8);
  swarm.servers[0].start = SwarmServer::nowhere;
  const BalancePlan plan = balance(swarm);
  const BalanceClock clock{10'000, 4'000};
  EXPECT_FALSE(lease_of(plan, clock, "s0", 3'999).has_value());
  const auto lease = lease_of(plan, clock, "s0", 14'000);
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(lease->round, 1);
  EXPECT_EQ(lease->version, plan.version);
  EXPECT_EQ(lease->end, 20'000);
  EXPECT_FALSE(lease_of(plan, clock, "s0", 20'000).has_value())
      << "what is announced now, the next does not hold";
  EXPECT_FALSE(lease_of(plan, clock, "nobody", 14'000).has_value());
  EXPECT_THROW(static_cast<void>(lease_of(plan, {10, 10}, "s0", 14'000)), OptionError);
}

TEST(BalanceRound, a_server_serves_its_old_blocks_until_others_have_loaded_them) {
  // Two that change places, and one that holds the block between them.
  Swarm swarm{3, {{"a", 0, 1, 10}, {"b", 2, 1, 10}, {"c", 1, 1, 10}}};
  SwarmServer& a = swarm.servers[0];
  SwarmServer& b = swarm.servers[1];
  a = begin_move(a, 2);
  b = begin_move(b, 0);
  EXPECT_EQ(online_throughputs(swarm), (std::vector<Throughput>{10, 10, 10}));
  EXPECT_EQ(block_throughputs(swarm), (std::vector<Throughput>{10, 10, 10}));
  a = finish_move(a);
  EXPECT_EQ(online_throughputs(swarm), (std::vector<Throughput>{5, 10, 15}));
  EXPECT_FALSE(may_drop(swarm, "a")) << "nobody else has block 0";
  EXPECT_FALSE(may_drop(swarm, "b")) << "it loads";
  b = finish_move(b);
  EXPECT_TRUE(may_drop(swarm, "a"));
  EXPECT_TRUE(may_drop(swarm, "b"));
  a = dropped(a);
  b = dropped(b);
  EXPECT_EQ(online_throughputs(swarm), (std::vector<Throughput>{10, 10, 10}));
  EXPECT_FALSE(may_drop(swarm, "a"));
  EXPECT_FALSE(may_drop(swarm, "nobody"));
}

}  // namespace
}  // namespace reef::plan
