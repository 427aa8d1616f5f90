// Routes of sessions: as quick as the best of all chains, around servers that were at fault or end soon, and moves that
// pay.

#include <reef/swarm/core/session_router.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/draws.hpp>

namespace reef::swarm::core {
namespace {

/// A roster as a client may see it, and the client's own round-trip times.
struct Roster {
  std::int64_t blocks = 0;
  std::int64_t positions = 64;
  std::vector<KnownServer> servers{};
  std::vector<Seconds> trips{};
};

Roster drawn_roster(std::uint64_t seed, bool short_of_room) {
  detail::Draws draws(seed);
  Roster roster;
  roster.blocks = 2 + static_cast<std::int64_t>(draws.below(6));
  const std::uint64_t count = 2 + draws.below(6);
  for (std::uint64_t i = 0; i < count; ++i) {
    KnownServer server;
    server.name = concat("s", i);
    server.numerics = "n";
    server.blocks.first = static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(roster.blocks)));
    server.blocks.last =
        server.blocks.first + 1 +
        static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(roster.blocks - server.blocks.first)));
    server.load.rate = std::exp(draws.between(1, 7));
    server.load.batch = draws.between(1, 20);
    server.load.queue = draws.below(2) == 0 ? 0 : draws.between(0, 30);
    // Room for one block and more: for all of them, or for some.
    if (short_of_room)
      server.load.room = roster.positions * static_cast<std::int64_t>(1 + draws.below(6));
    roster.servers.push_back(server);
    roster.trips.push_back(draws.between(0.001, 0.3));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::uint64_t j = 0; j < count; ++j) {
      if (i != j && draws.below(2) == 0)
        roster.servers[i].load.pings[concat("s", j)] = draws.between(0.001, 0.3);
    }
  }
  return roster;
}

using Way = std::vector<std::pair<std::size_t, BlockRange>>;  // servers by number

/// The seconds of a step, written anew from the contract.
Seconds seconds_of(const Roster& roster, const Way& way) {
  const auto between = [&](std::size_t a, std::size_t b) {
    const auto& from = roster.servers[a].load.pings;
    const auto& to = roster.servers[b].load.pings;
    if (const auto found = from.find(roster.servers[b].name); found != from.end()) return found->second;
    if (const auto found = to.find(roster.servers[a].name); found != to.end()) return found->second;
    return (std::max)(roster.trips[a], roster.trips[b]);
  };
  Seconds sum = 0;
  for (std::size_t i = 0; i < way.size(); ++i) {
    const auto& [number, blocks] = way[i];
    const KnownServer& server = roster.servers[number];
    sum += 0.001 + (i == 0 ? roster.trips[number] : between(way[i - 1].first, number)) / 2;
    sum += server.load.queue / server.load.batch * static_cast<double>(server.blocks.count()) / *server.load.rate;
    sum += static_cast<double>(blocks.count()) / *server.load.rate;
    if (server.load.room && roster.positions * blocks.count() > *server.load.room) sum += 4;
  }
  return sum + roster.trips[way.back().first] / 2;
}

/// The least seconds of all chains, wherever they leave a server; infinite where a block has none.
Seconds least_seconds(const Roster& roster) {
  Seconds least = std::numeric_limits<Seconds>::infinity();
  Way way;
  const std::function<void(std::int64_t)> go_on = [&](std::int64_t at) {
    if (at == roster.blocks) {
      least = (std::min)(least, seconds_of(roster, way));
      return;
    }
    for (std::size_t i = 0; i < roster.servers.size(); ++i) {
      const BlockRange& blocks = roster.servers[i].blocks;
      if (blocks.first > at || blocks.last <= at || (!way.empty() && way.back().first == i)) continue;
      for (std::int64_t end = at + 1; end <= blocks.last; ++end) {
        way.push_back({i, {at, end}});
        go_on(end);
        way.pop_back();
      }
    }
  };
  go_on(0);
  return least;
}

SessionRouter router_of(const Roster& roster) {
  SessionRouter router({.blocks = roster.blocks, .numerics = "n"});
  router.set(roster.servers);
  for (std::size_t i = 0; i < roster.trips.size(); ++i) router.measured(roster.servers[i].name, roster.trips[i], 0);
  return router;
}

TEST(SessionRouter, finds_the_best_of_all_chains_to_within_a_hundredth) {
  int routes = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const Roster roster = drawn_roster(seed, seed % 3 == 0);
    const FoundRoute found =
        router_of(roster).route({.blocks = {0, roster.blocks}, .positions = roster.positions}, 1);
    const Seconds least = least_seconds(roster);
    ASSERT_EQ(found.hops.empty(), std::isinf(least)) << "seed " << seed;
    if (found.hops.empty()) continue;
    ASSERT_TRUE(is_chain(found.hops, {0, roster.blocks})) << "seed " << seed;
    Way way;
    for (const RouteHop& hop : found.hops) {
      const auto number = static_cast<std::size_t>(hop.server.back() - '0');
      ASSERT_GE(hop.blocks.first, roster.servers[number].blocks.first) << "seed " << seed;
      ASSERT_LE(hop.blocks.last, roster.servers[number].blocks.last) << "seed " << seed;
      way.push_back({number, hop.blocks});
    }
    EXPECT_LE(seconds_of(roster, way), 1.01 * least) << "seed " << seed;
    ++routes;
  }
  EXPECT_GT(routes, 1000);
}

KnownServer server_of(const std::string& name, BlockRange blocks, double rate = 100) {
  KnownServer server;
  server.name = name;
  server.blocks = blocks;
  server.numerics = "n";
  server.load.rate = rate;
  return server;
}

/// A router of servers that are all as near.
SessionRouter near_router(std::vector<KnownServer> servers, std::int64_t blocks = 4) {
  SessionRouter router({.blocks = blocks, .numerics = "n"});
  for (const KnownServer& server : servers) router.measured(server.name, 0.01, 0);
  router.set(std::move(servers));
  return router;
}

const RouteWish whole{.blocks = {0, 4}, .positions = 64};

std::string names_of(const FoundRoute& route) {
  std::string names;
  for (const RouteHop& hop : route.hops)
    names += concat(names.empty() ? "" : " ", hop.server, ":", hop.blocks.first, ":", hop.blocks.last);
  return names;
}

TEST(SessionRouter, prefers_the_quick_the_near_the_idle_and_the_roomy) {
  EXPECT_EQ(names_of(near_router({server_of("a", {0, 4}), server_of("b", {0, 4}, 200)}).route(whole, 1)), "b:0:4");
  SessionRouter near = near_router({server_of("a", {0, 4}), server_of("b", {0, 4})});
  near.measured("b", 0, 0);
  EXPECT_EQ(names_of(near.route(whole, 1)), "b:0:4");
  KnownServer busy = server_of("a", {0, 4});
  busy.load.queue = 3;
  EXPECT_EQ(names_of(near_router({busy, server_of("b", {0, 4}, 90)}).route(whole, 1)), "b:0:4");
  KnownServer full = server_of("a", {0, 4});
  full.load.room = 63;
  EXPECT_EQ(names_of(near_router({full, server_of("b", {0, 4}, 50)}).route(whole, 1)), "b:0:4");
  full.load.room = 4 * 64;
  EXPECT_EQ(names_of(near_router({full, server_of("b", {0, 4}, 50)}).route(whole, 1)), "a:0:4");
}

TEST(SessionRouter, avoids_a_server_at_fault_but_for_blocks_that_nobody_else_has) {
  for (const HopFailure why : {HopFailure::lost, HopFailure::silent, HopFailure::checksum, HopFailure::evicted,
                               HopFailure::overload}) {
    SessionRouter router =
        near_router({server_of("a", {0, 4}), server_of("b", {0, 2}, 10), server_of("c", {3, 4}, 10)});
    router.failed("a", why, 10);
    EXPECT_EQ(names_of(router.route(whole, 11)), "b:0:2 a:2:3 c:3:4") << name_of(why);
    EXPECT_EQ(names_of(router.route(whole, 26)), "a:0:4") << name_of(why);
    router.failed("a", why, 30);
    EXPECT_EQ(names_of(router.route(whole, 59)), "b:0:2 a:2:3 c:3:4") << name_of(why);
    router.answered("a");
    EXPECT_EQ(names_of(router.route(whole, 59)), "a:0:4") << name_of(why);
  }
}

TEST(SessionRouter, bans_nobody_who_only_refuses) {
  SessionRouter router = near_router({server_of("a", {0, 4}), server_of("b", {0, 4}, 10)});
  router.failed("a", HopFailure::refused, 10);
  EXPECT_FALSE(router.is_banned("a", 10.1));
  EXPECT_EQ(names_of(router.route(whole, 10.1)), "b:0:4");
  EXPECT_EQ(names_of(router.route(whole, 12.1)), "a:0:4");
}

TEST(SessionRouter, keeps_to_its_numerics_class_where_that_has_all_blocks) {
  KnownServer other = server_of("b", {0, 4}, 1000);
  other.numerics = "m";
  SessionRouter router = near_router({server_of("a", {0, 4}), other});
  FoundRoute found = router.route(whole, 1);
  EXPECT_EQ(names_of(found), "a:0:4");
  EXPECT_FALSE(found.other_bits);
  router.failed("a", HopFailure::lost, 1);
  EXPECT_EQ(names_of(router.route(whole, 2)), "a:0:4") << "a server of the class that is banned once";
  router.set({server_of("a", {0, 3}), other});
  found = router.route(whole, 1);
  EXPECT_EQ(names_of(found), "b:0:4");
  EXPECT_TRUE(found.other_bits);
  SessionRouter strict({.blocks = 4, .numerics = "n", .same_bits = true});
  strict.set({server_of("a", {0, 3}), other});
  EXPECT_TRUE(strict.route(whole, 1).hops.empty());
}

TEST(SessionRouter, gives_a_server_of_its_class_up_that_only_fails) {
  KnownServer other = server_of("b", {0, 4});
  other.numerics = "m";
  SessionRouter router = near_router({server_of("a", {0, 4}), other});
  router.measured("b", 0.01, 900);
  for (const Seconds now : {0.0, 100.0, 200.0}) {
    EXPECT_EQ(names_of(router.route(whole, now)), "a:0:4") << now;
    router.failed("a", HopFailure::silent, now);
  }
  EXPECT_EQ(names_of(router.route(whole, 1000)), "b:0:4");
}

TEST(SessionRouter, takes_announcements_that_cannot_be) {
  KnownServer odd = server_of("a", {0, 4}, std::numeric_limits<double>::infinity());
  odd.load.batch = -1;
  odd.load.queue = std::numeric_limits<double>::quiet_NaN();
  odd.load.room = -5;
  odd.load.pings["b"] = -1;
  SessionRouter router = near_router({odd, server_of("b", {2, 9}), server_of("c", {-1, 2}), server_of("d", {3, 3})});
  router.measured("a", std::numeric_limits<double>::infinity(), 400);
  EXPECT_EQ(names_of(router.route(whole, 401)), "a:0:4");
  EXPECT_TRUE(router.route({.blocks = {3, 3}}, 1).hops.empty());
  EXPECT_TRUE(router.route({.blocks = {3, 5}}, 1).hops.empty());
  EXPECT_THROW(SessionRouter({.blocks = 0}), OptionError);
}

RouteWish over(const std::vector<RouteHop>& own) { return {{0, 4}, 64, own}; }

TEST(SessionRouter, moves_for_a_gain_of_a_fifth_that_pays_the_replay) {
  const RouteWish own = over({{"a", {0, 4}}});
  const SessionAge old{.rows = 100, .steps = 1000, .left = 1000};
  const auto moves = [&](double rate, const SessionAge& age) {
    return !near_router({server_of("a", {0, 4}), server_of("b", {0, 4}, rate)}).better(own, age, 1).hops.empty();
  };
  // A step over a takes 51 ms: 1.2 times as long as one over b of 127 rows a second.
  EXPECT_FALSE(moves(126, old));
  EXPECT_TRUE(moves(130, old));
  EXPECT_FALSE(moves(130, {.rows = 100, .steps = 1000, .left = 100})) << "the text is over before it pays";
  EXPECT_FALSE(moves(130, {.rows = 100, .steps = 100, .left = 1000})) << "it may be over before it pays";
  EXPECT_FALSE(moves(130, {.rows = 5000, .steps = 1000, .left = 1000})) << "the replay is too long";
  KnownServer batching = server_of("b", {0, 4}, 130);
  batching.load.batch = 20;  // a replay is many rows in one pass
  EXPECT_FALSE(near_router({server_of("a", {0, 4}), batching})
                   .better(own, {.rows = 5000, .steps = 1000, .left = 1000}, 1)
                   .hops.empty());
}

TEST(SessionRouter, does_not_take_its_own_rows_and_pages_for_those_of_others) {
  KnownServer a = server_of("a", {0, 4});
  a.load.queue = 0.9;
  a.load.room = 0;
  const SessionAge old{.rows = 10, .steps = 10000, .left = 10000};
  SessionRouter router = near_router({a, server_of("b", {0, 4})});
  EXPECT_TRUE(router.better(over({{"a", {0, 4}}}), old, 1).hops.empty());
  a.load.queue = 3;
  router.set({a, server_of("b", {0, 4})});
  EXPECT_EQ(names_of(router.better(over({{"a", {0, 4}}}), old, 1)), "b:0:4");
}

TEST(SessionRouter, leaves_a_server_that_drains_and_keeps_the_others_of_the_chain) {
  KnownServer ends = server_of("a", {0, 2});
  ends.draining = true;
  SessionRouter router = near_router({ends, server_of("b", {2, 4}), server_of("c", {0, 4}, 1000)});
  EXPECT_EQ(names_of(router.route(whole, 1)), "c:0:4");
  EXPECT_EQ(names_of(router.around_draining(over({{"a", {0, 2}}, {"b", {2, 4}}}), 1)), "c:0:2 b:2:4");
  EXPECT_TRUE(router.around_draining(over({{"c", {0, 2}}, {"b", {2, 4}}}), 1).hops.empty());
  router.failed("a", HopFailure::lost, 1);
  EXPECT_FALSE(router.is_banned("a", 1));
  router.set({ends, server_of("b", {2, 4})});
  EXPECT_TRUE(router.around_draining(over({{"a", {0, 2}}, {"b", {2, 4}}}), 1).hops.empty());
}

TEST(RoundTrips, are_smoothed_forgotten_and_replaced_where_they_were_infinite) {
  RoundTrips trips;
  EXPECT_FALSE(trips.find("a", 0).has_value());
  trips.measured("a", 0.1, 0);
  trips.measured("a", 0.2, 2);
  EXPECT_DOUBLE_EQ(*trips.find("a", 3), 0.12);
  trips.measured("a", std::numeric_limits<double>::infinity(), 4);
  EXPECT_TRUE(std::isinf(*trips.find("a", 5)));
  trips.measured("a", 0.3, 6);
  EXPECT_DOUBLE_EQ(*trips.find("a", 306), 0.3);
  EXPECT_FALSE(trips.find("a", 307).has_value());
}

}  // namespace
}  // namespace reef::swarm::core
