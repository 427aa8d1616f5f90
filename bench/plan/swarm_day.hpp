#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <reef/plan/balance.hpp>
#include <reef/plan/balance_round.hpp>
#include <reef/plan/block_choice.hpp>
#include <reef/plan/swarm.hpp>

/// A swarm whose servers come and go, and rules by which they choose blocks, in virtual time.
///
/// Source: Borzunov et al., arXiv 2312.08361, appendix E.
namespace reef_bench {

using reef::plan::Milliseconds;
using reef::plan::Swarm;
using reef::plan::SwarmServer;
using reef::plan::Throughput;

/// Who comes and goes when: 206 servers with room for 1 to 10 of 70 blocks and 0 to 100 requests a second, of
/// which from 20 to 105 are there, by a cosine; drawn by the seed.
struct SwarmDay {
  static constexpr int blocks = 70;

  SwarmDay(std::uint64_t seed, int minutes, int period)
      : comes(static_cast<std::size_t>(minutes)), goes(static_cast<std::size_t>(minutes)) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 206; ++i) {
      SwarmServer server;
      server.id = "server " + std::to_string(1000 + i);
      server.throughput = static_cast<Throughput>(random() % 100'000'001);
      server.length = 1 + static_cast<int>(random() % 10);
      servers.push_back(server);
    }
    std::vector<bool> there(servers.size());
    int count = 0;
    for (int minute = 0; minute < minutes; ++minute) {
      const double wave = (1 - std::cos(2 * std::numbers::pi * minute / period)) / 2;
      for (const int wanted = static_cast<int>(std::lround(20 + 85 * wave)); count != wanted;) {
        const auto i = static_cast<std::size_t>(random() % servers.size());
        const bool more = count < wanted;
        if (there[i] == more) continue;
        there[i] = more;
        count += more ? 1 : -1;
        (more ? comes : goes)[static_cast<std::size_t>(minute)].push_back(static_cast<int>(i));
      }
    }
  }

  [[nodiscard]] int minutes() const { return static_cast<int>(comes.size()); }

  std::vector<SwarmServer> servers;
  std::vector<std::vector<int>> comes;  // by minute
  std::vector<std::vector<int>> goes;
};

/// A good placement of every tenth minute's servers: the best of 60 restarts, each climbing by best responses; the
/// best six of them then by plans of any number of moves. By minute, 0 for the others.
inline std::vector<Throughput> best_found(const SwarmDay& day) {
  using namespace reef::plan;
  std::mt19937_64 random(99);
  std::vector<Throughput> found(day.comes.size());
  std::vector<bool> there(day.servers.size());
  for (std::size_t minute = 0; minute < found.size(); ++minute) {
    for (const int i : day.goes[minute]) there[static_cast<std::size_t>(i)] = false;
    for (const int i : day.comes[minute]) there[static_cast<std::size_t>(i)] = true;
    if (minute % 10 != 0) continue;
    Swarm swarm;
    swarm.blocks = SwarmDay::blocks;
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (there[i]) swarm.servers.push_back(day.servers[i]);
    }
    std::vector<std::pair<Throughput, std::vector<int>>> ends;
    for (int restart = 0; restart < 60; ++restart) {
      for (SwarmServer& server : swarm.servers)
        server.start =
            static_cast<int>(random() % static_cast<unsigned>(swarm.blocks - server.length + 1));
      std::vector<Throughput> t = block_throughputs(swarm);
      std::vector<int> order = swarm.by_id();
      for (bool moved = true; moved;) {
        moved = false;
        std::ranges::shuffle(order, random);
        for (const int i : order) {
          SwarmServer& server = swarm.servers[static_cast<std::size_t>(i)];
          // A thousandth less than it is: who stands as well elsewhere stays.
          add_to_blocks(t, server.start, server.length,
                        -server.throughput - server.throughput / 1000);
          const int best = best_start<Throughput>(t, server.length);
          add_to_blocks(t, server.start, server.length, server.throughput / 1000);
          moved |= std::exchange(server.start, best) != best;
          add_to_blocks(t, server.start, server.length, server.throughput);
        }
      }
      std::vector<int> starts;
      for (const SwarmServer& server : swarm.servers) starts.push_back(server.start);
      ends.emplace_back(slowest_block(t), std::move(starts));
    }
    std::ranges::stable_sort(ends, std::greater<>(),
                             &std::pair<Throughput, std::vector<int>>::first);
    for (std::size_t end = 0; end < 6; ++end) {
      for (std::size_t i = 0; i < swarm.servers.size(); ++i)
        swarm.servers[i].start = ends[end].second[i];
      for (bool more = true; more;) {
        const BalancePlan plan =
            balance(swarm, {.price_ppm = 0, .targets = 5, .beam = 4, .moves = 12});
        for (const BalanceMove& move : plan.moves)
          swarm.servers[static_cast<std::size_t>(swarm.find(move.id))].start = move.start;
        more = plan.then > plan.now;
        found[minute] = std::max(found[minute], plan.then);
      }
    }
  }
  return found;
}

enum class SwarmRule {
  random,     ///< anywhere, and stay
  join,       ///< where needed most when it comes, and stay
  published,  ///< that, and should_move of each at a random time of every minute
  ours,       ///< balance, once a minute for all
};

struct SwarmSetting {
  SwarmRule rule = SwarmRule::ours;
  double quality = 0;        ///< of should_move
  bool guard = false;        ///< of should_move
  Milliseconds delay = 0;    ///< until others see an announcement
  Milliseconds loading = 0;  ///< of new blocks
  reef::plan::BalanceOptions options{};
  std::uint64_t seed = 0;
};

struct SwarmResult {
  std::vector<Throughput> served;  ///< at the end of each minute
  std::vector<Throughput> bound;
  std::vector<int> there;
  std::int64_t moves = 0;
  std::int64_t disconnected_s = 0;
  std::int64_t plans = 0;      ///< made by a server from what it saw
  std::int64_t differing = 0;  ///< rounds of which servers had different plans
};

/// One day under one rule, in steps of a second.
class SwarmSimulation {
public:
  SwarmSimulation(const SwarmDay& day, const SwarmSetting& setting)
      : day_(day), setting_(setting), random_(setting.seed), peers_(day.servers.size()) {
    clock_.settle = setting.delay;
  }

  SwarmResult run() {
    for (int minute = 0; minute < day_.minutes(); ++minute) {
      come_and_go(static_cast<std::size_t>(minute));
      for (int second = 0; second < 60; ++second) {
        now_ = (Milliseconds{minute} * 60 + second) * 1000;
        load_and_drop();
        if (setting_.rule == SwarmRule::published) check(second);
        if (setting_.rule == SwarmRule::ours) plan();
        if (std::exchange(changed_, false))
          least_ = reef::plan::slowest_block(online_throughputs(truth()));
        result_.disconnected_s += least_ <= 0 ? 1 : 0;
      }
      const Swarm swarm = truth();
      result_.served.push_back(least_);
      result_.bound.push_back(throughput_bound(swarm));
      result_.there.push_back(static_cast<int>(swarm.servers.size()));
    }
    return result_;
  }

private:
  struct Peer {
    bool is_there = false;
    SwarmServer now;
    std::vector<reef::plan::Announcement> said;  // the last ones
    std::optional<Milliseconds> loads_until;
    int second = 0;           // of the next check
    std::int64_t round = -1;  // that it has planned
  };

  [[nodiscard]] Swarm truth() const {
    Swarm swarm;
    swarm.blocks = SwarmDay::blocks;
    for (const Peer& peer : peers_) {
      if (peer.is_there) swarm.servers.push_back(peer.now);
    }
    return swarm;
  }

  /// What was announced up to `time`, as far as it has reached a server by now; of itself, what it is, where
  /// `own` is a server.
  [[nodiscard]] Swarm view(Milliseconds time, const Peer* own) const {
    Swarm swarm;
    swarm.blocks = SwarmDay::blocks;
    for (const Peer& peer : peers_) {
      if (&peer == own) {
        swarm.servers.push_back(peer.now);
        continue;
      }
      const reef::plan::Announcement* last = nullptr;
      for (const auto& said : peer.said) {
        if (said.time <= time && said.time + setting_.delay <= now_) last = &said;
      }
      if (last != nullptr && last->server.state != reef::plan::ServerState::offline)
        swarm.servers.push_back(last->server);
    }
    return swarm;
  }

  void say(Peer& peer, SwarmServer server) {
    peer.now = std::move(server);
    std::erase_if(peer.said, [&](const auto& said) {
      return said.time + 300'000 < now_ && &said != &peer.said.back();
    });
    peer.said.push_back({now_, peer.now});
    changed_ = true;
  }

  void settle(Peer& peer, int start) {
    SwarmServer server = peer.now;
    if (setting_.loading == 0) {
      server.start = start;
      server.state = reef::plan::ServerState::online;
      say(peer, server);
      return;
    }
    if (setting_.rule == SwarmRule::ours && server.start != SwarmServer::nowhere) {
      server = begin_move(server, start);
    } else {
      server.start = start;
      server.state = reef::plan::ServerState::joining;
    }
    peer.loads_until = now_ + setting_.loading;
    say(peer, server);
  }

  void come_and_go(std::size_t minute) {
    now_ = static_cast<Milliseconds>(minute) * 60'000;
    for (const int i : day_.goes[minute]) {
      Peer& peer = peers_[static_cast<std::size_t>(i)];
      SwarmServer server = peer.now;
      server.state = reef::plan::ServerState::offline;
      say(peer, server);
      peer.is_there = false;
      peer.loads_until.reset();
    }
    for (const int i : day_.comes[minute]) {
      Peer& peer = peers_[static_cast<std::size_t>(i)];
      peer.now = day_.servers[static_cast<std::size_t>(i)];
      peer.second = static_cast<int>(random_() % 60);
      const int room = SwarmDay::blocks - peer.now.length + 1;
      if (setting_.rule == SwarmRule::ours) {
        say(peer, peer.now);
      } else if (setting_.rule == SwarmRule::random) {
        settle(peer, static_cast<int>(random_() % static_cast<unsigned>(room)));
      } else {
        // Those of the first minute came in turn.
        const Swarm seen = minute == 0 ? truth() : view(now_, nullptr);
        settle(peer, reef::plan::best_start<Throughput>(block_throughputs(seen), peer.now.length));
      }
      peer.is_there = true;
    }
  }

  void load_and_drop() {
    for (Peer& peer : peers_) {
      if (!peer.is_there) continue;
      if (peer.loads_until && *peer.loads_until <= now_) {
        peer.loads_until.reset();
        say(peer, reef::plan::finish_move(peer.now));
      }
      if (peer.now.old_start == SwarmServer::nowhere || peer.loads_until) continue;
      if (may_drop(view(now_, &peer), peer.now.id)) say(peer, reef::plan::dropped(peer.now));
    }
  }

  void check(int second) {
    for (Peer& peer : peers_) {
      if (!peer.is_there || peer.second != second || peer.loads_until) continue;
      const Swarm seen = view(now_, &peer);
      if (!should_move(seen, peer.now.id, setting_.quality, random_(), setting_.guard).move)
        continue;
      // Its target is chosen anew, as one that joins chooses.
      Swarm others = seen;
      std::erase_if(others.servers, [&](const SwarmServer& s) { return s.id == peer.now.id; });
      const int start =
          reef::plan::best_start<Throughput>(block_throughputs(others), peer.now.length);
      if (start == peer.now.start) continue;
      settle(peer, start);
      ++result_.moves;
    }
  }

  void plan() {
    if (now_ < clock_.settle || (now_ - clock_.settle) % clock_.period != 0) return;
    const std::int64_t round = clock_.round(now_);
    std::vector<std::pair<Peer*, reef::plan::BalanceMove>> acts;
    std::vector<std::uint64_t> versions;
    for (Peer& peer : peers_) {
      if (!peer.is_there) continue;
      const Swarm seen = view(clock_.snapshot(round), nullptr);
      const std::uint64_t version = reef::plan::version_of(seen);
      if (std::ranges::find(versions, version) == versions.end()) versions.push_back(version);
      const auto [made, is_new] = plans_.try_emplace(version);
      if (is_new) made->second = balance(seen, setting_.options);
      ++result_.plans;
      const auto lease = lease_of(made->second, clock_, peer.now.id, now_);
      if (lease) acts.emplace_back(&peer, lease->move);
    }
    result_.differing += versions.size() > 1 ? 1 : 0;
    plans_.clear();
    for (const auto& [peer, move] : acts) {
      if (peer->now.start != SwarmServer::nowhere) ++result_.moves;
      settle(*peer, move.start);
    }
  }

  const SwarmDay& day_;
  SwarmSetting setting_;
  std::mt19937_64 random_;
  std::vector<Peer> peers_;
  reef::plan::BalanceClock clock_;
  std::map<std::uint64_t, reef::plan::BalancePlan> plans_;  // of this round, by version
  Milliseconds now_ = 0;
  bool changed_ = true;
  Throughput least_ = 0;
  SwarmResult result_;
};

}  // namespace reef_bench
