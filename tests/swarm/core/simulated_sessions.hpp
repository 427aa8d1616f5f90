#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/draws.hpp>
#include <reef/swarm/core/detail/event_queue.hpp>
#include <reef/swarm/core/detail/session_rows.hpp>
#include <reef/swarm/core/server_bans.hpp>
#include <reef/swarm/core/session_client.hpp>
#include <reef/swarm/core/session_router.hpp>
#include <reef/swarm/core/session_server.hpp>

// A client and servers of a session on one queue of events: virtual time, messages that are late, doubled and lost,
// servers that fail, and blocks that are a function of all rows before. What the client accepts is compared with the
// rows that one cache computes alone.

namespace reef::swarm::core::simulated {

/// A block of a toy model: what comes out of a row depends on each row before it in its sequence, and on their order.
class ToyCache {
public:
  ToyCache(BlockRange blocks, std::int64_t batch)
      : blocks_(blocks), batch_(batch), states_(static_cast<std::size_t>(batch * blocks.count())) {}

  Bulk run(const CacheStep& step, const std::vector<std::byte>& rows) {
    cut(step.keep);
    if (!step.reorder.empty()) {
      const auto before = states_;
      for (std::int64_t i = 0; i < batch_; ++i) {
        for (std::int64_t b = 0; b < blocks_.count(); ++b)
          at(i, b) = before[static_cast<std::size_t>(
              step.reorder[static_cast<std::size_t>(i)] * blocks_.count() + b)];
      }
    }
    std::vector<std::uint64_t> values(rows.size() / sizeof(std::uint64_t));
    std::memcpy(values.data(), rows.data(), rows.size());
    const std::int64_t count = static_cast<std::int64_t>(values.size()) / batch_;
    for (std::int64_t i = 0; i < batch_; ++i) {
      for (std::int64_t row = 0; row < count; ++row) {
        std::uint64_t& value = values[static_cast<std::size_t>(i * count + row)];
        for (std::int64_t b = 0; b < blocks_.count(); ++b) {
          auto& states = at(i, b);
          const std::uint64_t before = states.empty() ? 0 : states.back();
          states.push_back(
              mixed(before ^ mixed(value + static_cast<std::uint64_t>(blocks_.first + b))));
          value = mixed(states.back() + 0x51);
        }
      }
    }
    std::vector<std::byte> out(rows.size());
    std::memcpy(out.data(), values.data(), rows.size());
    return std::make_shared<const std::vector<std::byte>>(std::move(out));
  }
  void cut(std::int64_t length) {
    for (auto& states : states_)
      states.resize((std::min)(states.size(), static_cast<std::size_t>(length)));
  }
  [[nodiscard]] std::int64_t length() const {
    return static_cast<std::int64_t>(states_.front().size());
  }

private:
  static std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::vector<std::uint64_t>& at(std::int64_t sequence, std::int64_t block) {
    return states_[static_cast<std::size_t>(sequence * blocks_.count() + block)];
  }

  BlockRange blocks_;
  std::int64_t batch_;
  std::vector<std::vector<std::uint64_t>> states_;  // by sequence and block
};

/// What goes wrong with a server, when it takes a certain step for the first time.
///
/// | kill      | the process ends; it is back, with nothing, `seconds` later                 |
/// | vanish    | the same, and nobody is told that the connection is lost                   |
/// | slow      | steps take `seconds` longer for as long                                    |
/// | evict     | the session's pages go to others                                           |
/// | half_open | for `seconds`, what is sent to it does not arrive                          |
/// | mute      | for `seconds`, what it sends does not arrive                               |
/// | damage    | the rows that it sends to the next server are others, once                 |
/// | drain     | it takes no new sessions, and ends when it has none, or 60 s later          |
enum class Trouble : std::uint8_t { kill, vanish, slow, evict, half_open, mute, damage, drain };

struct SessionFault {
  Trouble trouble = Trouble::kill;
  int server = 0;
  std::int64_t step = 1;
  bool in_repair =
      false;  // when it is asked to open a session in the middle of one, in place of a step
  Seconds seconds = 5;
};

struct SessionPlan {
  std::uint64_t seed = 1;
  std::vector<SessionFault> faults{};
};

inline constexpr int servers = 7;
inline constexpr std::int64_t blocks = 6;

/// The spans of the servers: each block is on two at least, cut at different places.
inline BlockRange span_of(int server) {
  static constexpr std::int64_t spans[servers][2] = {{0, 3}, {3, 6}, {0, 2}, {2, 4},
                                                     {4, 6}, {0, 6}, {1, 5}};
  return {spans[server][0], spans[server][1]};
}

inline SessionPlan drawn_session_plan(std::uint64_t seed) {
  detail::Draws draws(seed * 77 + 5);
  SessionPlan plan{seed, {}};
  const std::uint64_t count = draws.below(5);
  for (std::uint64_t i = 0; i < count; ++i) {
    plan.faults.push_back({static_cast<Trouble>(draws.below(8)),
                           static_cast<int>(draws.below(servers)),
                           static_cast<std::int64_t>(1 + draws.below(10)), draws.below(4) == 0,
                           draws.between(0.5, 12)});
  }
  return plan;
}

class SimulatedSession {
public:
  /// `moves`: whether the session also moves to other servers for no reason.
  explicit SimulatedSession(const SessionPlan& plan, bool moves = true)
      : plan_(plan),
        draws_(plan.seed),
        batch_(1 + static_cast<std::int64_t>(draws_.below(3))),
        client_(options()),
        whole_({0, blocks}, batch_),
        done_(plan.faults.size()),
        moves_(moves) {
    for (int i = 0; i < servers; ++i) start(i);
  }

  /// Runs the plan. Returns the law that is broken, or nothing.
  std::string run() {
    steps_left_ = 12;
    act(next_step());
    tick();
    while (violation_.empty() && (steps_left_ > 0 || !client_.is_idle()) && !queue_.empty() &&
           queue_.now() < 2000)
      queue_.next()();
    if (violation_.empty() && (steps_left_ > 0 || !client_.is_idle()))
      violation_ =
          concat("progress: after ", queue_.now(), " s the client waits ", client_.waits_for());
    if (!violation_.empty()) return violation_;
    act(client_.close());
    const Seconds end = queue_.now() + 200;  // longer than a session stays without a message
    while (!queue_.empty() && queue_.now() < end) queue_.next()();
    for (const Server& server : servers_) {
      if (server.alive &&
          (server.core->sessions() != 0 || server.core->pages() != 0 || !server.caches.empty()))
        return concat("leak: ", server.name, " has a session that was closed");
    }
    return {};
  }

  [[nodiscard]] std::int64_t repairs() const { return client_.repairs(); }
  [[nodiscard]] std::int64_t replayed() const { return replayed_; }
  [[nodiscard]] std::int64_t moves() const { return client_.moves(); }
  [[nodiscard]] std::int64_t drained() const { return drained_; }
  [[nodiscard]] int bans() const { return static_cast<int>(banned_); }

private:
  struct Server {
    std::string name{};
    int number = 0;
    bool alive = false;
    std::unique_ptr<SessionServer> core{};
    std::map<std::string, ToyCache> caches{};
    int incarnation = 0;
    Seconds slow_until = 0, deaf_until = 0, mute_until = 0, busy_until = 0;
    Seconds slow_by = 0;
    bool damages = false;
    bool draining = false;
    bool at_fault = false;  // something has happened to it that others may notice
  };

  SessionClientOptions options() const {
    SessionClientOptions options;
    options.session = "s";
    options.model = "toy";
    options.blocks = blocks;
    options.batch = batch_;
    options.max_length = 256;
    options.row = sizeof(std::uint64_t);
    options.answer = 3;
    options.step = 1500;
    options.attempts = 200;
    return options;
  }

  void start(int number) {
    if (servers_.size() <= static_cast<std::size_t>(number))
      servers_.resize(static_cast<std::size_t>(number) + 1);
    Server& server = servers_[static_cast<std::size_t>(number)];
    const int incarnation = server.incarnation + 1;
    server = Server{};
    server.incarnation = incarnation;
    server.number = number;
    server.name = concat("v", number, "#", incarnation);
    server.alive = true;
    server.core = std::make_unique<SessionServer>(SessionServerOptions{.model = "toy",
                                                                       .blocks = span_of(number),
                                                                       .row = sizeof(std::uint64_t),
                                                                       .positions = 1024,
                                                                       .idle = 100});
  }

  void tick() {
    queue_.after(0.25, [this] {
      act(client_.tick(queue_.now()));
      for (Server& server : servers_) {
        if (server.alive) serve(server, server.core->tick(queue_.now()));
        if (server.alive && server.draining && server.core->sessions() == 0) {
          ++drained_;
          end(server, 1);
        }
      }
      leave_draining();
      tick();
    });
  }

  /// Ends a server in order; it is back, with nothing, `seconds` later.
  void end(Server& server, Seconds seconds) {
    server.alive = false;
    queue_.after(0.05, [this, name = server.name] { act(client_.lost(name, queue_.now())); });
    queue_.after(seconds, [this, number = server.number] { start(number); });
  }

  /// Moves the session away from servers that drain, if others have their blocks.
  void leave_draining() {
    if (!client_.can_move()) return;
    std::vector<RouteHop> chain;
    bool drains = false;
    for (const RouteHop& hop : client_.chain()) {
      const Server* const server = find(hop.server);
      std::vector<RouteHop> others;
      if (server != nullptr && server->draining) others = found_route(hop.blocks);
      drains = drains || !others.empty();
      if (others.empty()) others.push_back(hop);
      chain.insert(chain.end(), others.begin(), others.end());
    }
    if (drains) act(client_.move(chain, queue_.now()));
  }

  /// Moves the session to another chain now and then, for no reason.
  void move_at_times() {
    if (client_.can_move() && draws_.below(6) == 0)
      act(client_.move(found_route({0, blocks}), queue_.now()));
  }

  /// Draws the next step of the client, and computes its rows alone.
  SessionClient::Actions next_step() {
    --steps_left_;
    const std::int64_t length = client_.length();
    std::int64_t keep = length;
    if (length > 0 && draws_.below(4) == 0)
      keep -= static_cast<std::int64_t>(draws_.below(
          static_cast<std::uint64_t>((std::min)(length, std::int64_t{5})) + 1));
    const std::int64_t rows =
        draws_.below(3) == 0 ? 1 + static_cast<std::int64_t>(draws_.below(8)) : 1;
    std::vector<std::int64_t> reorder;
    if (batch_ > 1 && draws_.below(3) == 0) {
      for (std::int64_t i = 0; i < batch_; ++i)
        reorder.push_back(
            static_cast<std::int64_t>(draws_.below(static_cast<std::uint64_t>(batch_))));
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(batch_ * rows) * sizeof(std::uint64_t));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(draws_.below(256));
    expected_ = whole_.run({keep, reorder, rows}, bytes);
    return client_.begin(keep, reorder, rows,
                         std::make_shared<const std::vector<std::byte>>(std::move(bytes)),
                         queue_.now());
  }

  Server* find(const std::string& name) {
    for (Server& server : servers_) {
      if (server.name == name && server.alive) return &server;
    }
    return nullptr;
  }

  void act(const SessionClient::Actions& actions) {
    for (const ask::Action& action : actions)
      std::visit([&](const auto& what) { act(what); }, action);
  }
  void act(const ask::Send& send) { transmit("client", send.to, send.message); }
  void act(const ask::Route& route) {
    if (!route.failed.empty() && route.why != HopFailure::refused) {
      bans_.failed(route.failed, queue_.now());
      router_.failed(route.failed, route.why, queue_.now());
      ++banned_;
      for (const Server& server : servers_) {
        if (server.name == route.failed && server.alive && !server.at_fault && lost_messages_ == 0)
          violation_ = concat("ban: ", server.name, " is avoided, and nothing has happened to it");
      }
    }
    queue_.after(draws_.between(0.001, 0.05), [this, range = route.blocks] {
      act(client_.routed(range, found_route(range), queue_.now()));
    });
  }
  void act(const ask::Accepted& accepted) {
    if (*accepted.rows != *expected_)
      violation_ = concat("bits: step ", accepted.step, " has other rows");
    for (const RouteHop& hop : client_.chain()) {
      Server* const server = find(hop.server);
      if (server == nullptr) continue;
      // Late copies of messages may open again what was closed: of the names s.1, s.2, ... the last is in the chain.
      std::int64_t last = 0;
      std::int64_t length = 0;
      for (const auto& [name, cache] : server->caches) {
        const std::int64_t number = std::stoll(name.substr(2));
        if (number > last) length = cache.length();
        last = (std::max)(last, number);
      }
      if (length > whole_.length())
        violation_ = concat("cache: ", hop.server, " has ", length, " of ", whole_.length(), " positions");
    }
    if (steps_left_ > 0 && violation_.empty()) {
      leave_draining();
      if (moves_) move_at_times();
      queue_.after(draws_.between(0, 0.1), [this] { act(next_step()); });
    }
  }
  void act(const ask::Failed& failed) {
    violation_ = concat("progress: the session fails: ", failed.why);
  }

  /// Returns the servers that a SessionRouter chooses of those that live.
  std::vector<RouteHop> quickest_route(const BlockRange& range) {
    std::vector<KnownServer> known;
    std::set<std::int64_t> held;
    for (const Server& server : servers_) {
      if (!server.alive) continue;
      const BlockRange span = span_of(server.number);
      for (std::int64_t b = span.first; b < span.last && !server.draining; ++b) held.insert(b);
      KnownServer one{server.name, span, "", {}, server.draining};
      one.load.rate = static_cast<double>(100 + draws_.below(900));
      one.load.room = server.core->room();
      known.push_back(one);
    }
    router_.set(std::move(known));
    std::vector<RouteHop> hops =
        router_.route({range, 256 * batch_, client_.chain()}, queue_.now()).hops;
    bool has_all = true;
    for (std::int64_t b = range.first; b < range.last; ++b) has_all = has_all && held.contains(b);
    if (has_all == hops.empty()) violation_ = "route: it is there if each block has a server, and only then";
    for (const RouteHop& hop : hops) {
      const Server* const server = find(hop.server);
      if (server == nullptr || server->draining) violation_ = concat("route: over ", hop.server);
    }
    return hops;
  }

  /// Draws servers for blocks, of those that live and are not avoided unless no others have a block.
  std::vector<RouteHop> found_route(const BlockRange& range) {
    if (plan_.seed % 2 == 0) return quickest_route(range);
    std::vector<RouteHop> route;
    std::int64_t at = range.first;
    while (at < range.last) {
      std::vector<const Server*> good;
      for (const bool avoided : {false, true}) {
        for (const Server& server : servers_) {
          const bool is_avoided = bans_.is_banned(server.name, queue_.now());
          const BlockRange span = span_of(server.number);
          if (server.alive && !server.draining && span.first <= at && at < span.last && is_avoided == avoided)
            good.push_back(&server);
        }
        if (!good.empty()) break;
      }
      if (good.empty()) return {};
      const Server& server = *good[draws_.below(good.size())];
      const std::int64_t end = (std::min)(range.last, span_of(server.number).last);
      route.push_back({server.name, {at, end}});
      at = end;
    }
    return route;
  }
  void serve(Server& server, const std::vector<serve::Action>& actions) {
    for (const serve::Action& action : actions)
      std::visit([&](const auto& what) { serve(server, what); }, action);
  }
  void serve(Server& server, const serve::Send& send) {
    SessionMessage message = send.message;
    if (auto* const step = std::get_if<SessionStep>(&message); step != nullptr && server.damages) {
      server.damages = false;
      std::vector<std::byte> other = *step->bytes;
      other[draws_.below(other.size())] ^= std::byte{1};
      step->bytes = std::make_shared<const std::vector<std::byte>>(std::move(other));
    }
    transmit(server.name, send.to, message);
  }
  void serve(Server& server, const serve::OpenCache& open) {
    server.caches.insert_or_assign(open.session, ToyCache(open.blocks, open.batch));
  }
  void serve(Server& server, const serve::CutCache& cut) {
    server.caches.at(cut.session).cut(cut.length);
  }
  void serve(Server& server, const serve::CloseCache& close) { server.caches.erase(close.session); }
  void serve(Server& server, const serve::Run& run) {
    Seconds takes = draws_.between(0.005, 0.05);
    if (queue_.now() < server.slow_until) takes += server.slow_by;
    server.busy_until = (std::max)(server.busy_until, queue_.now()) + takes;
    queue_.at(server.busy_until, [this, name = server.name, run] {
      Server* const here = find(name);
      if (here == nullptr) return;
      const auto cache = here->caches.find(run.session);
      if (cache == here->caches.end()) return;
      replayed_ += run.cache.rows > 8 ? 1 : 0;
      const Bulk rows = cache->second.run(run.cache, *run.bytes);
      serve(*here, here->core->computed(run.session, rows, queue_.now()));
    });
  }

  void transmit(const std::string& from, const std::string& to, const SessionMessage& message) {
    if (const Server* const sender = find(from);
        sender != nullptr && queue_.now() < sender->mute_until)
      return;
    const int copies = draws_.below(12) == 0 ? 2 : 1;
    // Messages between two are in order, as those of one connection, but for second copies.
    Seconds& last = last_arrival_[{from, to}];
    for (int copy = 0; copy < copies; ++copy) {
      Seconds when = queue_.now() + draws_.between(0.01, 0.08);
      if (copy == 0) {
        when = (std::max)(when, last);
        last = when;
      } else {
        when += draws_.between(0, 4);
      }
      queue_.at(when, [this, from, to, message] { arrive(from, to, message); });
    }
  }
  void arrive(const std::string& from, const std::string& to, const SessionMessage& message) {
    if (to == "client") return act(client_.receive(from, message, queue_.now()));
    Server* const server = find(to);
    if (server == nullptr) {
      if (from == "client" && !vanished_.contains(to)) act(client_.lost(to, queue_.now()));
      return;
    }
    inflict(*server, message);
    if (Server* const still = find(to); still != nullptr && queue_.now() >= still->deaf_until)
      serve(*still, still->core->receive(from, message, queue_.now()));
  }

  void inflict(Server& server, const SessionMessage& message) {
    const auto* const step = std::get_if<SessionStep>(&message);
    const auto* const open = std::get_if<OpenSession>(&message);
    for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
      const SessionFault& fault = plan_.faults[i];
      if (done_[i] || fault.server != server.number) continue;
      const bool now = fault.in_repair ? open != nullptr && open->step > 0
                                       : step != nullptr && step->step >= fault.step;
      if (!now) continue;
      done_[i] = true;
      if (fault.trouble != Trouble::drain) server.at_fault = true;
      const Seconds until = queue_.now() + fault.seconds;
      switch (fault.trouble) {
        case Trouble::vanish: vanished_.insert(server.name); [[fallthrough]];
        case Trouble::kill: {
          const std::string name = server.name;
          server.alive = false;
          ++lost_messages_;  // what it had sent on is lost with it, so that others look silent
          if (fault.trouble == Trouble::kill)
            queue_.after(0.05, [this, name] { act(client_.lost(name, queue_.now())); });
          queue_.after(fault.seconds, [this, number = server.number] { start(number); });
          return;
        }
        case Trouble::slow:
          server.slow_until = until;
          server.slow_by = fault.seconds;
          ++lost_messages_;
          break;
        case Trouble::evict: {
          std::vector<std::string> names;
          for (const auto& [name, cache] : server.caches) names.push_back(name);
          for (const std::string& name : names) serve(server, server.core->evict(name));
          break;
        }
        case Trouble::half_open:
          server.deaf_until = until;
          ++lost_messages_;
          break;
        case Trouble::mute:
          server.mute_until = until;
          ++lost_messages_;
          break;
        case Trouble::damage:
          server.damages = true;
          ++lost_messages_;  // it shows at the next server
          break;
        case Trouble::drain:
          server.draining = true;
          server.core->drain();
          queue_.after(60, [this, name = server.name] {
            if (Server* const late = find(name)) {
              ++lost_messages_;
              end(*late, 1);
            }
          });
          break;
      }
    }
  }

  SessionPlan plan_;
  detail::Draws draws_;
  std::int64_t batch_;
  SessionClient client_;
  ToyCache whole_;
  Bulk expected_{};
  std::vector<bool> done_;
  bool moves_;
  detail::EventQueue queue_;
  std::vector<Server> servers_;
  std::map<std::pair<std::string, std::string>, Seconds> last_arrival_;
  ServerBans bans_{4};
  SessionRouter router_{{.blocks = blocks, .ban = 4}};
  std::set<std::string> vanished_;
  std::string violation_;
  std::int64_t steps_left_ = 0;
  std::int64_t replayed_ = 0;
  std::int64_t banned_ = 0;
  std::int64_t drained_ = 0;
  int lost_messages_ = 0;
};

}  // namespace reef::swarm::core::simulated
