#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/route.hpp>
#include <reef/swarm/core/round_trips.hpp>
#include <reef/swarm/core/server_bans.hpp>
#include <reef/swarm/core/session_route.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// What a server announces of its speed and its room.
struct ServerLoad {
  std::optional<double> rate{};  ///< rows a second through one block, one after the other; nothing: not known
  double batch = 1;  ///< rows of several sessions that are computed in the time of one, 1 or more
  double queue = 0;  ///< rows that wait or are computed, on average
  std::optional<std::int64_t> room{};  ///< positions that are free, of all blocks together; nothing: enough
  std::map<std::string, Seconds> pings{};  ///< round-trip times to other servers that this one has measured

  friend bool operator==(const ServerLoad&, const ServerLoad&) = default;
};

/// A server of blocks, as its announcement says.
struct KnownServer {
  std::string name{};
  BlockRange blocks{};
  std::string numerics{};  ///< its numerics class
  ServerLoad load{};
  bool draining = false;  ///< true: it takes no new sessions

  friend bool operator==(const KnownServer&, const KnownServer&) = default;
};

/// The options of a SessionRouter.
struct SessionRouterOptions {
  std::int64_t blocks = 0;  ///< blocks of the model
  std::string numerics{};   ///< servers of this numerics class are chosen where they have all blocks
  bool same_bits = false;   ///< true: servers of other classes are never chosen
  Seconds ban = 15;         ///< the first ban of a server that was at fault
  double gain = 1.2;        ///< a session moves where its step takes so many times as long as by another chain, or more
  /// Costs of plan::Router. A message costs this library's loop much less than the published 18 ms; a server that has
  /// too little room costs less than the longest delay, which is what the way from a server to itself costs.
  plan::RouteOptions cost{.overhead = 0.001, .allocation = 4, .cache_of_used_blocks = true};
};

/// What a route is for.
struct RouteWish {
  BlockRange blocks{};
  std::int64_t positions = 0;   ///< positions that the session reserves at each block, of all of its sequences
  std::vector<RouteHop> own{};  ///< the session's chain now: its own rows and pages there do not count as others'
};

/// A route that was found.
struct FoundRoute {
  std::vector<RouteHop> hops{};  ///< empty: there is none
  Seconds cost = 0;              ///< seconds of a step of one row
  bool other_bits = false;       ///< true: some server is of another numerics class
};

/// How far a session is, where it is asked whether it moves.
struct SessionAge {
  std::int64_t rows = 0;   ///< rows of all sequences that a replay has
  std::int64_t steps = 0;  ///< steps so far
  std::int64_t left = 0;   ///< the most steps that are still to come
};

/// Chooses servers for the blocks of a session by the time that a step takes: by plan::Router, from what servers
/// announce and from the client's own round-trip times.
///
/// | cost    | that of plan::Route; a server may be left behind any of its blocks                                     |
/// | exact   | the best of all chains, up to 256 places to leave servers; of more places, those where another server  |
/// |         | begins, and of more than 256 of these, the ends of servers alone                                       |
/// | unknown | a way between two servers that neither has measured takes as long as the longer one of the client's   |
/// | bans    | a banned server has a block where no other of its class has it; so has one that has just refused      |
/// | class   | servers of the own numerics class, where they have all blocks; a server that was banned three times   |
/// |         | without an answer does not count as one, unless `same_bits`                                           |
/// | draining| never chosen                                                                                          |
/// | moves   | where a step takes 1.2 times as long as by the new chain or more, and the seconds that as many more   |
/// |         | steps as there were (or as can be) would save are more than those of the replay                       |
/// | errors  | OptionError of the constructor: blocks from 1 to 10000. Announcements are cut to what can be          |
///
/// \code
/// swarm::core::SessionRouter router({.blocks = 4});
/// router.set({{.name = "a", .blocks = {0, 4}}, {.name = "b", .blocks = {0, 2}}});
/// const auto found = router.route({.blocks = {0, 4}, .positions = 64}, 0.0);  // by a
/// \endcode
class SessionRouter {
public:
  explicit SessionRouter(SessionRouterOptions options);

  /// Replaces the servers that are there. Bans and times stay.
  void set(std::vector<KnownServer> servers);
  /// Notes a round-trip time from the client to a server.
  void measured(const std::string& server, Seconds seconds, Seconds now) { trips_.measured(server, seconds, now); }
  /// Notes that a server was replaced. A server that drains is not banned, whatever has happened.
  void failed(const std::string& server, HopFailure why, Seconds now);
  /// Notes that rows of a server were accepted.
  void answered(const std::string& server) { bans_.answered(server); }

  /// Returns the quickest servers for blocks.
  [[nodiscard]] FoundRoute route(const RouteWish& wish, Seconds now) const;
  /// Returns the seconds of a step of one row over `wish.own`; nothing where one of its servers is not there.
  [[nodiscard]] std::optional<Seconds> cost(const RouteWish& wish, Seconds now) const;
  /// Returns the chain for all blocks that the session of `wish.own` moves to; no hops where it stays.
  [[nodiscard]] FoundRoute better(const RouteWish& wish, const SessionAge& age, Seconds now) const;
  /// Returns the session's chain with others in place of servers that drain; no hops where none drains, or where
  /// nobody else of the own class has their blocks.
  [[nodiscard]] FoundRoute around_draining(const RouteWish& wish, Seconds now) const;

  [[nodiscard]] bool is_banned(const std::string& server, Seconds now) const { return bans_.is_banned(server, now); }
  [[nodiscard]] bool is_draining(const std::string& server) const;

private:
  /// A part of a server's blocks that a route may use.
  struct Part {
    const KnownServer* server = nullptr;
    BlockRange blocks{};
  };

  [[nodiscard]] const KnownServer* find(const std::string& name) const&;
  void find(const std::string& name) const&& = delete;
  [[nodiscard]] std::vector<Part> parts(const RouteWish& wish, bool own_class, Seconds now) const;
  [[nodiscard]] static std::vector<Part> cut(const RouteWish& wish, const std::vector<Part>& parts);
  [[nodiscard]] FoundRoute search(const RouteWish& wish, const std::vector<Part>& parts, Seconds now) const;
  [[nodiscard]] plan::RouteServer seen(const Part& part, const RouteWish& wish, Seconds now) const;
  [[nodiscard]] std::optional<Seconds> way(const KnownServer& from, const KnownServer& to, Seconds now) const;
  [[nodiscard]] Seconds replay(const RouteWish& wish, const FoundRoute& found, const SessionAge& age,
                               Seconds now) const;

  SessionRouterOptions options_;
  std::vector<KnownServer> servers_{};  // by name
  RoundTrips trips_{};
  ServerBans bans_;
  std::map<std::string, Seconds> resting_{};  // servers that have refused, and until when others are asked
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/session_router.ipp>
#endif
