#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/plan/detail/route_cost.hpp>
#include <reef/plan/router.hpp>
#include <reef/swarm/core/session_router.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

namespace detail {

/// Returns a number of an announcement, cut to what plan::RouteServer may have; `instead` for what is no number.
inline double announced(double value, double least, double most, double instead) {
  return std::isnan(value) ? instead : std::clamp(value, least, most);
}

inline constexpr double longest_way = 1e9;

inline int block_number(std::int64_t block) { return static_cast<int>(block); }

}  // namespace detail

REEF_INLINE SessionRouter::SessionRouter(SessionRouterOptions options)
    : options_(std::move(options)), bans_(options_.ban) {
  constexpr std::int64_t most = 10'000;
  if (options_.blocks < 1 || options_.blocks > most) {
    throw OptionError("reef::swarm::core::SessionRouterOptions: blocks is ", options_.blocks, ".\n  fix: from 1 to ",
                      most, ".");
  }
  plan::validate(options_.cost);
}

REEF_INLINE void SessionRouter::set(std::vector<KnownServer> servers) {
  std::erase_if(servers, [this](const KnownServer& one) {
    return one.blocks.first < 0 || one.blocks.count() < 1 || one.blocks.last > options_.blocks;
  });
  std::sort(servers.begin(), servers.end(),
            [](const KnownServer& a, const KnownServer& b) { return a.name < b.name; });
  const auto same = [](const KnownServer& a, const KnownServer& b) { return a.name == b.name; };
  servers.erase(std::unique(servers.begin(), servers.end(), same), servers.end());
  servers_ = std::move(servers);
}

REEF_INLINE const KnownServer* SessionRouter::find(const std::string& name) const& {
  const auto comes_before = [](const KnownServer& one, const std::string& wanted) { return one.name < wanted; };
  const auto found = std::lower_bound(servers_.begin(), servers_.end(), name, comes_before);
  return found != servers_.end() && found->name == name ? &*found : nullptr;
}

REEF_INLINE bool SessionRouter::is_draining(const std::string& server) const {
  const KnownServer* const found = find(server);
  return found != nullptr && found->draining;
}

REEF_INLINE void SessionRouter::failed(const std::string& server, HopFailure why, Seconds now) {
  constexpr Seconds soon = 2;
  if (is_draining(server)) return;
  if (why != HopFailure::refused) return bans_.failed(server, now);
  std::erase_if(resting_, [now](const auto& one) { return one.second <= now; });
  resting_[server] = now + soon;
}

REEF_INLINE std::vector<SessionRouter::Part> SessionRouter::parts(const RouteWish& wish, bool own_class,
                                                                  Seconds now) const {
  constexpr int given_up = 3;
  std::vector<bool> has_good(static_cast<std::size_t>(wish.blocks.count()));
  std::vector<Part> parts;
  std::vector<Part> avoided;
  for (const KnownServer& one : servers_) {
    const BlockRange blocks{(std::max)(one.blocks.first, wish.blocks.first),
                            (std::min)(one.blocks.last, wish.blocks.last)};
    if (one.draining || blocks.count() < 1 || (own_class && one.numerics != options_.numerics)) continue;
    if (own_class && !options_.same_bits && bans_.count(one.name) >= given_up) continue;
    const auto rest = resting_.find(one.name);
    if (bans_.is_banned(one.name, now) || (rest != resting_.end() && rest->second > now)) {
      avoided.push_back({&one, blocks});
      continue;
    }
    parts.push_back({&one, blocks});
    for (std::int64_t b = blocks.first; b < blocks.last; ++b)
      has_good[static_cast<std::size_t>(b - wish.blocks.first)] = true;
  }
  // Of a server that is avoided, the runs of blocks that nobody else has.
  for (const Part& part : avoided) {
    for (std::int64_t b = part.blocks.first; b < part.blocks.last;) {
      const auto is_alone = [&](std::int64_t block) {
        return !has_good[static_cast<std::size_t>(block - wish.blocks.first)];
      };
      std::int64_t end = b;
      while (end < part.blocks.last && is_alone(end)) ++end;
      if (end > b) parts.push_back({part.server, {b, end}});
      b = (std::max)(end, b + 1);
    }
  }
  return parts;
}

/// Returns the parts, and of each also those that end where a step may leave a server.
REEF_INLINE std::vector<SessionRouter::Part> SessionRouter::cut(const RouteWish& wish,
                                                                const std::vector<Part>& parts) {
  constexpr std::size_t most = 256;
  std::set<std::int64_t> begins;
  std::set<std::int64_t> all;
  for (const Part& part : parts) begins.insert(part.blocks.first);
  for (std::int64_t b = wish.blocks.first; b < wish.blocks.last; ++b) all.insert(b);
  for (const std::set<std::int64_t>& places : {all, begins}) {
    std::vector<Part> found = parts;
    for (const Part& part : parts) {
      auto at = places.upper_bound(part.blocks.first);
      for (; at != places.end() && *at < part.blocks.last && found.size() <= most; ++at)
        found.push_back({part.server, {part.blocks.first, *at}});
    }
    if (found.size() <= most) return found;
  }
  return parts;
}

REEF_INLINE std::optional<Seconds> SessionRouter::way(const KnownServer& from, const KnownServer& to,
                                                      Seconds now) const {
  for (const auto& [here, there] : {std::pair(&from, &to), std::pair(&to, &from)}) {
    const auto found = here->load.pings.find(there->name);
    if (found != here->load.pings.end()) return detail::announced(found->second, 0, detail::longest_way, 0);
  }
  // Between |a - b| and a + b, of which this is the middle.
  const std::optional<Seconds> a = trips_.find(from.name, now);
  const std::optional<Seconds> b = trips_.find(to.name, now);
  if (!a || !b) return {};
  return detail::announced((std::max)(*a, *b), 0, detail::longest_way, 0);
}

REEF_INLINE plan::RouteServer SessionRouter::seen(const Part& part, const RouteWish& wish, Seconds now) const {
  const KnownServer& server = *part.server;
  const ServerLoad& load = server.load;
  std::int64_t own_blocks = 0;
  for (const RouteHop& hop : wish.own) {
    if (hop.server == server.name) own_blocks += hop.blocks.count();
  }
  plan::RouteServer seen;
  seen.start = detail::block_number(part.blocks.first);
  seen.end = detail::block_number(part.blocks.last);
  if (load.rate) seen.rps = detail::announced(*load.rate, 0.01, 1e12, 1);
  if (load.room) {
    constexpr std::int64_t most = 400'000'000'000'000;
    // Keys and values: two for each position of each block.
    seen.cache_left = 2 * (std::clamp<std::int64_t>(*load.room, 0, most / 2) +
                           (std::min)(wish.positions * own_blocks, most / 2));
  }
  if (const auto trip = trips_.find(server.name, now)) seen.client_rtt = (std::min)(*trip, detail::longest_way);
  const double batch = detail::announced(load.batch, 1, 1e9, 1);
  const double others = detail::announced(load.queue - (own_blocks > 0 ? 1 : 0), 0, 1e9, 0);
  // What waits goes through all blocks of the server, of which the part has some.
  const double share = static_cast<double>(server.blocks.count()) / static_cast<double>(part.blocks.count());
  seen.queue = (std::min)(others / batch * share, 1e9);
  return seen;
}

REEF_INLINE FoundRoute SessionRouter::search(const RouteWish& wish, const std::vector<Part>& parts,
                                             Seconds now) const {
  const std::int64_t positions = std::clamp<std::int64_t>(wish.positions, 0, 1'000'000'000'000);
  plan::Router router({detail::block_number(wish.blocks.first), detail::block_number(wish.blocks.last), positions},
                      options_.cost);
  std::vector<std::string> names;
  std::map<std::string, const KnownServer*> named;
  for (const Part& part : parts) {
    names.push_back(concat(part.server->name, "\n", part.blocks.first, "\n", part.blocks.last));
    named[names.back()] = part.server;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    plan::RouteServer server = seen(parts[i], wish, now);
    const std::int64_t end = parts[i].blocks.last;
    for (std::size_t j = 0; j < parts.size(); ++j) {
      if (parts[j].blocks.first > end || parts[j].blocks.last <= end) continue;
      const bool is_same = parts[j].server == parts[i].server;
      const std::optional<Seconds> seconds =
          is_same ? detail::longest_way : way(*parts[i].server, *parts[j].server, now);
      if (seconds) server.next[names[j]] = *seconds;
    }
    router.set(names[i], server);
  }
  const plan::Route route = router.route();
  FoundRoute found;
  found.cost = route.cost;
  for (const plan::RouteHop& hop : route.path) {
    const KnownServer& server = *named.at(hop.name);
    found.other_bits = found.other_bits || server.numerics != options_.numerics;
    if (!found.hops.empty() && found.hops.back().server == server.name)
      found.hops.back().blocks.last = hop.end;
    else
      found.hops.push_back({server.name, {hop.start, hop.end}});
  }
  return found;
}

REEF_INLINE FoundRoute SessionRouter::route(const RouteWish& wish, Seconds now) const {
  const BlockRange& blocks = wish.blocks;
  if (blocks.first < 0 || blocks.count() < 1 || blocks.last > options_.blocks) return {};
  FoundRoute found = search(wish, cut(wish, parts(wish, true, now)), now);
  if (!found.hops.empty() || options_.same_bits) return found;
  return search(wish, cut(wish, parts(wish, false, now)), now);
}

REEF_INLINE std::optional<Seconds> SessionRouter::cost(const RouteWish& wish, Seconds now) const {
  const plan::RouteRequest request{0, detail::block_number(options_.blocks),
                                   std::clamp<std::int64_t>(wish.positions, 0, 1'000'000'000'000)};
  Seconds sum = 0;
  const KnownServer* before = nullptr;
  std::optional<Seconds> back;
  for (const RouteHop& hop : wish.own) {
    const KnownServer* const server = find(hop.server);
    if (server == nullptr) return {};
    const plan::RouteServer here = seen({server, hop.blocks}, wish, now);
    back = here.client_rtt;
    sum += plan::detail::delay(before == nullptr ? back : way(*before, *server, now), options_.cost);
    sum += plan::detail::entry_time(here, detail::block_number(hop.blocks.count()), request, options_.cost);
    sum += static_cast<double>(hop.blocks.count()) * plan::detail::block_time(here, options_.cost);
    before = server;
  }
  return sum + plan::detail::delay(back, options_.cost);
}

REEF_INLINE Seconds SessionRouter::replay(const RouteWish& wish, const FoundRoute& found, const SessionAge& age,
                                          Seconds now) const {
  Seconds sum = 0;
  for (const RouteHop& hop : found.hops) {
    if (std::find(wish.own.begin(), wish.own.end(), hop) != wish.own.end()) continue;
    const KnownServer& server = *find(hop.server);
    const plan::RouteServer here = seen({&server, hop.blocks}, wish, now);
    const double batch = detail::announced(server.load.batch, 1, 1e9, 1);
    sum += static_cast<double>(age.rows) / batch * static_cast<double>(hop.blocks.count()) *
           plan::detail::block_time(here, options_.cost);
    sum += options_.cost.overhead + 2 * plan::detail::delay(here.client_rtt, options_.cost);
  }
  return sum;
}

REEF_INLINE FoundRoute SessionRouter::better(const RouteWish& wish, const SessionAge& age, Seconds now) const {
  const std::optional<Seconds> present = cost(wish, now);
  if (!present) return {};
  FoundRoute found = route({{0, options_.blocks}, wish.positions, wish.own}, now);
  if (found.hops.empty() || found.hops == wish.own || found.other_bits) return {};
  if (*present < options_.gain * found.cost) return {};
  const auto steps = static_cast<double>((std::min)(age.steps, age.left));
  if ((*present - found.cost) * steps <= replay(wish, found, age, now)) return {};
  return found;
}

REEF_INLINE FoundRoute SessionRouter::around_draining(const RouteWish& wish, Seconds now) const {
  FoundRoute chain;
  bool moves = false;
  for (const RouteHop& hop : wish.own) {
    FoundRoute found;
    if (is_draining(hop.server)) found = route({hop.blocks, wish.positions, wish.own}, now);
    if (found.hops.empty() || found.other_bits) {
      chain.hops.push_back(hop);
      continue;
    }
    moves = true;
    chain.hops.insert(chain.hops.end(), found.hops.begin(), found.hops.end());
  }
  return moves ? chain : FoundRoute{};
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
