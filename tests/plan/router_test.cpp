// Routes against Dijkstra's algorithm on the published graph, and after thousands of changes against a router
// that knows only what is there.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/route_json.hpp>
#include <reef/plan/router.hpp>

namespace reef::plan {

// What GoogleTest prints of them.
void PrintTo(const RouteHop& hop, std::ostream* out) {
  *out << hop.name << " [" << hop.start << ", " << hop.end << ")";
}
void PrintTo(const Route& route, std::ostream* out) {
  if (!route.feasible) {
    *out << "no route, since " << route.why;
    return;
  }
  *out << "a route of " << route.cost << " s (" << route.picoseconds << " ps):";
  for (const RouteHop& hop : route.path) {
    *out << " ";
    PrintTo(hop, out);
  }
}

namespace {

using Servers = std::map<std::string, RouteServer>;
using testing::HasSubstr;

/// The least cost in doubles over the graph of (server, block), as it was published, or nothing.
std::optional<double> dijkstra(const RouteRequest& request, const Servers& servers) {
  const auto delay = [](const std::optional<double>& rtt) {
    return rtt ? std::min(*rtt / 2, 5.0) : 0.15;
  };
  const auto enter = [&](const RouteServer& server) {
    const bool fits = !request.cache_tokens || !server.cache_left ||
                      *request.cache_tokens * 2 * (server.end - server.start) <= *server.cache_left;
    return 0.018 + (fits ? 0 : 10);
  };
  using State = std::pair<std::string, int>;
  std::map<State, double> best;
  std::priority_queue<std::pair<double, State>, std::vector<std::pair<double, State>>,
                      std::greater<>>
      open;
  const auto reach = [&](double cost, const State& state) {
    const auto [found, is_new] = best.emplace(state, cost);
    if (!is_new && found->second <= cost) return;
    found->second = cost;
    open.emplace(cost, state);
  };
  const auto holds = [](const RouteServer& server, int block) {
    return server.start <= block && block < server.end;
  };
  for (const auto& [name, server] : servers) {
    if (holds(server, request.start))
      reach(delay(server.client_rtt) + enter(server), {name, request.start});
  }
  std::optional<double> least;
  while (!open.empty()) {
    const auto [cost, state] = open.top();
    open.pop();
    const auto& [name, block] = state;
    if (cost > best.at(state)) continue;
    const RouteServer& server = servers.at(name);
    if (block == request.end) {
      const double whole = cost + delay(server.client_rtt);
      least = least ? std::min(*least, whole) : whole;
    } else if (block < server.end) {
      reach(cost + 1 / server.rps.value_or(300), {name, block + 1});
    } else {
      for (const auto& [other, next] : servers) {
        if (!holds(next, block)) continue;
        const auto rtt = server.next.find(other);
        reach(cost + enter(next) +
                  delay(rtt == server.next.end() ? std::nullopt : std::optional(rtt->second)),
              {other, block});
      }
    }
  }
  return least;
}

/// Draws servers and what happens to them.
class Draw {
public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  int whole(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  double rtt() { return whole(0, 9) == 0 ? 1e9 : whole(1, 400) * 1e-3; }
  std::string name() { return "s" + std::to_string(whole(0, 24)); }

  RouteServer server(int blocks, bool load) {
    RouteServer s;
    s.start = whole(0, blocks - 1);
    s.end = whole(s.start + 1, std::min(blocks, s.start + 6));
    change(s, load);
    for (int i = 0; i < 4; ++i) s.next[name()] = rtt();
    return s;
  }

  void change(RouteServer& s, bool load) {
    const int what = whole(0, 5);
    // Few values: many routes cost the same.
    if (what <= 1)
      s.rps = whole(0, 3) == 0 ? std::nullopt : std::optional<double>(whole(1, 8) * 25);
    if (what == 2) s.cache_left = whole(0, 3) == 0 ? std::nullopt : std::optional(whole(0, 8000));
    if (what == 3) s.client_rtt = whole(0, 3) == 0 ? std::nullopt : std::optional(rtt());
    if (what == 4) s.next[name()] = rtt();
    if (what == 5) s.next.erase(name());
    if (!load) return;
    if (whole(0, 3) == 0) s.queue = whole(0, 4);
    if (whole(0, 3) == 0) s.occupancy = whole(0, 12);
    if (whole(0, 3) == 0) s.batch = whole(1, 8);
  }

private:
  std::mt19937_64 random_;
};

Route from_scratch(const RouteRequest& request, const RouteOptions& options,
                   const Servers& servers) {
  Router router(request, options);
  for (const auto& [name, server] : servers) router.set(name, server);
  return router.route();
}

/// The cost of a path, hop by hop as the formula says.
double cost_of(const Route& route, const RouteRequest& request, const RouteOptions& options,
               const Servers& servers) {
  double cost = 0;
  const RouteServer* before = nullptr;
  for (const RouteHop& hop : route.path) {
    const RouteServer& server = servers.at(hop.name);
    std::optional<double> rtt = server.client_rtt;
    if (before != nullptr) {
      const auto next = before->next.find(hop.name);
      rtt = next == before->next.end() ? std::nullopt : std::optional(next->second);
    }
    const double alone = 1 / server.rps.value_or(options.rps);
    const double block =
        std::min(100.0, alone * std::max(1.0, (server.occupancy + 1) / server.batch));
    cost +=
        (rtt ? std::min(*rtt / 2, options.max_delay) : options.unknown_delay) + options.overhead;
    cost += std::min(100.0, server.queue * (server.end - server.start) * block);
    cost += (hop.end - hop.start) * block;
    if (request.cache_tokens && server.cache_left) {
      const int held =
          options.cache_of_used_blocks ? hop.end - hop.start : server.end - server.start;
      const double need = 2.0 * static_cast<double>(*request.cache_tokens) * held;
      const auto left = static_cast<double>(*server.cache_left);
      if (need > left) {
        cost += options.allocation;
      } else if (need > 0) {
        cost += options.full_cache * need / left;
      }
    }
    before = &server;
  }
  const std::optional<double> back = before->client_rtt;
  return cost + (back ? std::min(*back / 2, options.max_delay) : options.unknown_delay);
}

TEST(Router, costs_what_the_published_graph_says) {
  Draw draw(1);
  int feasible = 0;
  for (int i = 0; i < 1500; ++i) {
    const int blocks = draw.whole(1, 12);
    RouteRequest request;
    request.start = draw.whole(0, blocks - 1);
    request.end = draw.whole(request.start + 1, blocks);
    if (i % 2 == 0) request.cache_tokens = draw.whole(0, 1000);
    Servers servers;
    for (int s = draw.whole(1, 20); s > 0; --s) servers[draw.name()] = draw.server(blocks, false);
    const Route route = from_scratch(request, {}, servers);
    const std::optional<double> expected = dijkstra(request, servers);
    ASSERT_EQ(route.feasible, expected.has_value());
    if (!route.feasible) continue;
    ASSERT_NEAR(route.cost, *expected, 1e-9);
    ASSERT_NEAR(static_cast<double>(route.picoseconds) * 1e-12, *expected, 1e-9);
    ++feasible;
  }
  EXPECT_GT(feasible, 500);
  EXPECT_LT(feasible, 1500);
}

TEST(Router, answers_after_ten_thousand_changes_as_one_that_starts_anew) {
  constexpr int blocks = 14;
  int feasible = 0;
  int changes = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Draw draw(10 + seed);
    const RouteRequest request{1, blocks - 1, 500};
    RouteOptions options;
    options.cache_of_used_blocks = seed % 2 == 1;
    options.full_cache = seed % 3 == 1 ? 0.5 : 0;
    Servers servers;
    Router router(request, options);
    for (int change = 0; change < 1000; ++change, ++changes) {
      // Some changes come together.
      do {
        const std::string name = draw.name();
        const int what = draw.whole(0, 9);
        if (what == 0) {
          servers.erase(name);
          router.remove(name);
        } else {
          RouteServer& server = servers[name];
          if (what == 1 || server.end == 0) server = draw.server(blocks, seed > 4);
          draw.change(server, seed > 4);
          router.set(name, server);
        }
      } while (draw.whole(0, 4) == 0);
      const Route now = router.route();
      ASSERT_EQ(now, from_scratch(request, options, servers)) << "change " << changes;
      if (!now.feasible) continue;
      ++feasible;
      ASSERT_NEAR(now.cost, static_cast<double>(now.picoseconds) * 1e-12, 1e-9);
      ASSERT_NEAR(now.cost, cost_of(now, request, options, servers), 1e-9);
    }
  }
  EXPECT_EQ(changes, 10'000);
  EXPECT_GT(feasible, 5'000);
}

TEST(Router, looks_at_what_a_change_touches) {
  Draw draw(3);
  Servers servers;
  Router router({0, 70});
  for (int i = 0; i < 400; ++i) {
    RouteServer server = draw.server(70, false);
    servers["n" + std::to_string(i)] = server;
    router.set("n" + std::to_string(i), server);
  }
  std::ignore = router.route();
  const std::int64_t built = router.examined_hops();
  for (int i = 0; i < 100; ++i) {
    RouteServer& server = servers["n" + std::to_string(i)];
    draw.change(server, false);
    router.set("n" + std::to_string(i), server);
    std::ignore = router.route();
  }
  EXPECT_LT((router.examined_hops() - built) / 100, built / 20);
  const std::int64_t before = router.examined_hops();
  router.set("n7", servers["n7"]);
  std::ignore = router.route();
  EXPECT_EQ(router.examined_hops(), before) << "nothing has changed";
}

TEST(Router, goes_around_queues_full_batches_and_full_caches) {
  const RouteServer idle{0, 4, 100, 10'000, 0.1};
  const RouteServer slower{0, 4, 80, 10'000, 0.1};
  const auto chosen = [&](const RouteServer& first, const RouteOptions& options = {},
                          std::optional<std::int64_t> tokens = 1000) {
    return from_scratch({0, 2, tokens}, options, {{"first", first}, {"second", slower}})
        .path.at(0)
        .name;
  };
  EXPECT_EQ(chosen(idle), "first");
  RouteServer busy = idle;
  busy.queue = 1;
  EXPECT_EQ(chosen(busy), "second");
  busy = idle;
  busy.occupancy = 4;
  busy.batch = 5;
  EXPECT_EQ(chosen(busy), "first") << "one more sequence is no slower";
  busy.batch = 4;
  EXPECT_EQ(chosen(busy), "first") << "5/4 of 10 ms equals 12.5 ms: the name decides";
  busy.batch = 3;
  EXPECT_EQ(chosen(busy), "second");
  busy = idle;
  busy.cache_left = 4000;
  EXPECT_EQ(chosen(busy), "second") << "the whole span needs 8000 tokens";
  RouteOptions options;
  options.cache_of_used_blocks = true;
  EXPECT_EQ(chosen(busy, options), "first") << "two blocks need 4000";
  options.full_cache = 0.1;
  EXPECT_EQ(chosen(busy, options), "second") << "but nobody else gets any";
}

TEST(Router, says_which_block_nobody_holds) {
  const Route none = from_scratch({0, 5}, {}, {{"a", {0, 2}}, {"b", {1, 3}}, {"c", {4, 6}}});
  EXPECT_FALSE(none.feasible);
  EXPECT_EQ(none.why, "no server holds block 3");
  EXPECT_EQ(from_scratch({0, 5}, {}, {}).why, "no server holds block 0");
}

TEST(Router, a_case_with_a_key_that_nothing_reads_is_refused) {
  io::Json json{{"L", 2}, {"start", 0}, {"end", 2}, {"servers", io::Json::object()}};
  EXPECT_EQ(route_from_json(json, "case").request.end, 2);
  json["server"] = 1;
  EXPECT_THROW(static_cast<void>(route_from_json(json, "case")), DecodeError);
}

TEST(Router, refuses_what_cannot_be_and_stays_as_it_is) {
  Router router({0, 2});
  router.set("a", {0, 2, 10});
  const Route before = router.route();
  const auto refused = [&](const RouteServer& server, const char* text) {
    try {
      router.set("a", server);
      ADD_FAILURE() << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
    EXPECT_EQ(router.route(), before);
  };
  refused({0, 0}, "end of 'a' is 0");
  refused({0, 2, 0}, "rps of 'a' is 0");
  refused({0, 2, 10, -1}, "cache of 'a' is -1");
  refused({0, 2, 10, 1, -0.1}, "client_rtt of 'a' is -0.1");
  refused({0, 2, 10, 1, 0.1, {{"b", -1}}}, "next of 'a' is -1");
  RouteServer loaded{0, 2, 10};
  loaded.batch = 0;
  refused(loaded, "batch of 'a' is 0");
  EXPECT_THROW(Router({2, 2}), OptionError);
  EXPECT_THROW(Router({0, 2, -1}), OptionError);
}

}  // namespace
}  // namespace reef::plan
