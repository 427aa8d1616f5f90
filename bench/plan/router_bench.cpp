// A change of one server of many, and the quickest route then: 70 blocks, servers with room for 1 to 10.
//
//   scratch    a router that is made anew with all servers
//   dijkstra   Dijkstra's algorithm over (server, block), the graph that the public code builds for every route
//
// `ways` are those from a server to another that were looked at for a change, `of_ways` how many more are for a
// route from scratch. One change in two is of how busy a server is, others of its cache and of a round trip, and
// one in ten goes and comes back.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <reef/plan/router.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;
using Servers = std::map<std::string, plan::RouteServer>;

constexpr plan::RouteRequest request{0, 70, 1024};

class Swarm {
public:
  explicit Swarm(int servers) : random_(7), count_(servers) {
    for (int i = 0; i < servers; ++i) {
      plan::RouteServer& server = all[name(i)];
      const int length = draw(1, 10);
      // The first ones are a row, so that each block has a server.
      server.start = i < 70 ? std::min(i, 70 - length) : draw(0, 70 - length);
      server.end = server.start + length;
      server.rps = draw(20, 400);
      server.cache_left = draw(0, 40'000);
      server.client_rtt = draw(5, 300) * 1e-3;
      for (int n = 0; n < 10; ++n) server.next[name(draw(0, servers - 1))] = draw(5, 300) * 1e-3;
    }
  }

  /// What has become of one server; whether it goes before.
  std::pair<std::string, bool> change() {
    const std::string of = name(draw(0, count_ - 1));
    plan::RouteServer& server = all[of];
    const int what = draw(0, 9);
    if (what < 5) server.rps = draw(20, 400);
    if (what == 5 || what == 6) server.cache_left = draw(0, 40'000);
    if (what == 7 || what == 8) server.next.begin()->second = draw(5, 300) * 1e-3;
    return {of, what == 9};
  }

  Servers all;

private:
  int draw(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<unsigned>(most - least + 1));
  }
  static std::string name(int i) { return "server " + std::to_string(i); }

  std::mt19937_64 random_;
  int count_;
};

/// The published graph, with numbers for names.
double dijkstra(const Servers& servers) {
  std::vector<const plan::RouteServer*> nodes;
  std::map<std::string, std::size_t> ids;
  for (const auto& [name, server] : servers) {
    ids[name] = nodes.size();
    nodes.push_back(&server);
  }
  constexpr std::size_t columns = 71;
  std::vector<std::vector<std::size_t>> holders(columns);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (int block = nodes[i]->start; block < nodes[i]->end; ++block)
      holders[static_cast<std::size_t>(block)].push_back(i);
  }
  std::vector<std::vector<std::pair<std::size_t, double>>> next(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& [name, rtt] : nodes[i]->next) next[i].emplace_back(ids[name], rtt);
  }
  const auto enter = [&](std::size_t to) {
    const plan::RouteServer& server = *nodes[to];
    return 0.018 + (2 * 1024 * (server.end - server.start) <= *server.cache_left ? 0 : 10);
  };
  std::vector<double> best(nodes.size() * columns, 1e300);
  std::priority_queue<std::pair<double, std::size_t>, std::vector<std::pair<double, std::size_t>>,
                      std::greater<>>
      open;
  const auto reach = [&](double cost, std::size_t state) {
    if (cost >= best[state]) return;
    best[state] = cost;
    open.emplace(cost, state);
  };
  for (const std::size_t i : holders[0])
    reach(std::min(*nodes[i]->client_rtt / 2, 5.0) + enter(i), i * columns);
  double least = 1e300;
  while (!open.empty()) {
    const auto [cost, state] = open.top();
    open.pop();
    if (cost > best[state]) continue;
    if (cost >= least) return least;
    const std::size_t i = state / columns;
    const std::size_t block = state % columns;
    if (block == 70) {
      least = std::min(least, cost + std::min(*nodes[i]->client_rtt / 2, 5.0));
    } else if (static_cast<int>(block) < nodes[i]->end) {
      reach(cost + 1 / *nodes[i]->rps, state + 1);
    } else {
      for (const std::size_t to : holders[block]) {
        double delay = 0.15;
        for (const auto& [known, rtt] : next[i]) {
          if (known == to) delay = std::min(rtt / 2, 5.0);
        }
        reach(cost + delay + enter(to), to * columns + block);
      }
    }
  }
  return least;
}

void change(plan::Router& router, Swarm& swarm) {
  const auto [name, goes] = swarm.change();
  if (goes) router.remove(name);
  router.set(name, swarm.all[name]);
}

void register_all() {
  for (const int servers : {100, 300, 1000}) {
    reef_bench::add(
        "change/servers:" + std::to_string(servers), 9,
        [=](benchmark::State& state) {
          Swarm swarm(servers);
          plan::Router router(request);
          for (const auto& [name, server] : swarm.all) router.set(name, server);
          benchmark::DoNotOptimize(router.route());
          const auto whole = static_cast<double>(router.examined_hops());
          reef_bench::Notes notes;
          constexpr int changes = 200;
          const auto incremental = [&] {
            const std::int64_t before = router.examined_hops();
            const double took = reef_bench::repeated(changes, [&] {
              change(router, swarm);
              benchmark::DoNotOptimize(router.route());
            })();
            const double ways = static_cast<double>(router.examined_hops() - before) / changes;
            notes["ways"].push_back(ways);
            notes["of_ways"].push_back(whole / ways);
            return took;
          };
          reef_bench::compare(
              state, incremental,
              {{"scratch", reef_bench::repeated(5,
                                                [&] {
                                                  plan::Router anew(request);
                                                  for (const auto& [name, server] : swarm.all)
                                                    anew.set(name, server);
                                                  benchmark::DoNotOptimize(anew.route());
                                                })},
               {"dijkstra",
                reef_bench::repeated(5, [&] { benchmark::DoNotOptimize(dijkstra(swarm.all)); })}},
              {}, &notes);
        },
        benchmark::kMicrosecond);
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
