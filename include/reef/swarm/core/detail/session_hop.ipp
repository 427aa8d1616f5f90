#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/session_hop.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

REEF_INLINE std::size_t first_unanswered(const std::vector<SessionHop>& hops) {
  const auto found =
      std::find_if(hops.begin(), hops.end(), [](const SessionHop& hop) { return !hop.answered; });
  return static_cast<std::size_t>(found - hops.begin());
}

REEF_INLINE std::size_t find_hop(const std::vector<SessionHop>& hops, const std::string& server,
                                 const std::string& session) {
  const auto found = std::find_if(hops.begin(), hops.end(), [&](const SessionHop& hop) {
    return hop.server == server && hop.session == session;
  });
  return static_cast<std::size_t>(found - hops.begin());
}

REEF_INLINE std::string what_is_waited_for(const std::vector<SessionHop>& hops) {
  std::string names;
  const auto add = [&names](const std::string& name) {
    names += (names.empty() ? "" : ", ") + name;
  };
  for (const SessionHop& hop : hops) {
    if (hop.routing) add(concat("[", hop.blocks.first, ", ", hop.blocks.last, ")"));
  }
  if (!names.empty()) return concat("for a server of the blocks ", names);
  for (const SessionHop& hop : hops) {
    if (!hop.ready) add(hop.server);
  }
  if (!names.empty()) return concat("for ", names, " to be ready");
  const std::size_t first = first_unanswered(hops);
  return first < hops.size() ? concat("for the answer of ", hops[first].server) : std::string();
}

REEF_INLINE std::vector<SessionHop> hops_in_place_of(SessionHop& replaced,
                                                     const std::vector<RouteHop>& route,
                                                     const RowHistory& empty) {
  std::vector<SessionHop> hops;
  for (const RouteHop& one : route) {
    SessionHop fresh{one.server, one.blocks, empty};
    fresh.knows_input = hops.empty() ? replaced.knows_input : false;
    if (hops.empty()) fresh.input = std::move(replaced.input);
    fresh.answered = replaced.answered;
    hops.push_back(std::move(fresh));
  }
  return hops;
}

REEF_INLINE std::vector<SessionHop> moved_hops(std::vector<SessionHop>& before,
                                               const std::vector<RouteHop>& chain,
                                               const RowHistory& empty) {
  std::vector<SessionHop> hops;
  for (const RouteHop& one : chain) {
    const auto found = std::find_if(before.begin(), before.end(), [&](const SessionHop& hop) {
      return hop.blocks.first == one.blocks.first;
    });
    if (found != before.end() && found->server == one.server && found->blocks == one.blocks) {
      hops.push_back(*found);
      found->session.clear();
      continue;
    }
    SessionHop fresh{one.server, one.blocks, empty};
    fresh.answered = true;
    fresh.knows_input = found != before.end() && found->knows_input;
    if (fresh.knows_input) fresh.input = std::move(found->input);
    hops.push_back(std::move(fresh));
  }
  return hops;
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
