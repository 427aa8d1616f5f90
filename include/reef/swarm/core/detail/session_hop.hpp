#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <reef/swarm/core/detail/session_rows.hpp>
#include <reef/swarm/core/session_message.hpp>
#include <reef/swarm/core/session_route.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// A server of a session's chain, as the session's client sees it.
struct SessionHop {
  std::string server{};
  BlockRange blocks{};
  RowHistory input;
  std::string session{};    // its name at the server; empty: not opened
  bool knows_input = true;  // false: of a boundary at which nobody was cut before
  bool routing = false;     // servers for these blocks are looked for
  bool ready = false;       // it is in the chain of this epoch
  bool fresh = true;        // it has no rows
  bool answered = false;    // its answer to the step is accepted
  bool whole = false;       // it is given all rows in this step
  int faults = 0;           // answers whose checksums did not agree, since one did
  std::optional<StepDone> early{};

  [[nodiscard]] bool is_out() const { return routing || !ready; }
};

/// Returns the place of the first hop whose answer is not accepted; that behind the last if there is none.
std::size_t first_unanswered(const std::vector<SessionHop>& hops);

/// Returns the place of the hop that has this session at this server; that behind the last if there is none.
std::size_t find_hop(const std::vector<SessionHop>& hops, const std::string& server, const std::string& session);

/// Returns what a step waits for, and of whom; an empty text if there is nothing.
std::string what_is_waited_for(const std::vector<SessionHop>& hops);

/// Returns the hops of a route that takes the place of one: the first of them has its rows.
std::vector<SessionHop> hops_in_place_of(SessionHop& replaced, const std::vector<RouteHop>& route,
                                         const RowHistory& empty);

/// Returns the hops of a chain that takes the place of another: servers that do the same blocks in both stay as they
/// are, and boundaries that are in both keep their rows. In `before` the hops that stay have no session any more.
std::vector<SessionHop> moved_hops(std::vector<SessionHop>& before, const std::vector<RouteHop>& chain,
                                   const RowHistory& empty);

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/detail/session_hop.ipp>
#endif
