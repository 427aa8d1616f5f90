#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// A server as a client sees it that looks for a route through all blocks.
struct RouteServer {
  int start = 0;  ///< the server holds the blocks [start, end)
  int end = 0;
  std::optional<double> rps{};  ///< steps per second through a block; unknown: RouteOptions::rps
  std::optional<std::int64_t> cache_left{};  ///< tokens left in the cache; unknown: enough
  std::optional<Seconds> client_rtt{};       ///< round trip from the client; unknown: unknown_delay
  std::map<std::string, Seconds> next{};     ///< round trips to other servers, measured by this one
  double queue = 0;      ///< requests that wait before one that comes now, each for the whole span
  double occupancy = 0;  ///< sequences in the batch that runs
  double batch = 1;      ///< the most sequences of a step that is no slower than a step of one

  friend bool operator==(const RouteServer&, const RouteServer&) = default;
};

/// A request for a route: the blocks to go through.
struct RouteRequest {
  int start = 0;  ///< blocks [start, end)
  int end = 0;
  std::optional<std::int64_t> cache_tokens{};  ///< the tokens, of the whole batch, that the session may grow to
};

/// Options of the cost of a route. The defaults are published ones.
struct RouteOptions {
  Seconds overhead = 0.018;      ///< the overhead of a message, beside its delay
  Seconds allocation = 10;       ///< the time added where the cache is short
  Seconds unknown_delay = 0.15;  ///< the delay, one way, where no round trip is known
  Seconds most_delay = 5;        ///< the longest delay, one way: a server that cannot be reached stays usable
  double rps = 300;              ///< the rate of servers that announce none
  bool cache_of_used_blocks =
      false;  ///< the cache must hold the blocks that are used, not the whole span
  Seconds full_cache =
      0;  ///< the time added for a session that takes all of the cache that is left; in proportion if it takes less
};

/// A part of a route: server `name` runs the blocks [start, end).
struct RouteHop {
  std::string name;
  int start = 0;
  int end = 0;

  friend bool operator==(const RouteHop&, const RouteHop&) = default;
};

struct Route {
  bool feasible = false;
  std::string why;               ///< the reason, if there is no route
  Seconds cost = 0;              ///< the time of a step through all blocks and back
  std::int64_t picoseconds = 0;  ///< the cost in whole numbers, by which routes are compared
  std::vector<RouteHop> path;

  friend bool operator==(const Route&, const Route&) = default;
};

/// Throws OptionError, naming the field, for invalid numbers.
void validate(const RouteServer& server, std::string_view name);

void validate(const RouteRequest& request);

void validate(const RouteOptions& options);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/route.ipp>
#endif
