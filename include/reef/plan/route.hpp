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

/// A server as a client sees it that looks for a way through all blocks.
struct RouteServer {
  int start = 0;  ///< it holds the blocks [start, end)
  int end = 0;
  std::optional<double> rps{};  ///< steps per second through a block; unknown: RouteOptions::rps
  std::optional<std::int64_t> cache_left{};  ///< tokens; unknown: enough
  std::optional<Seconds> client_rtt{};       ///< round trip from the client; unknown: as far as any
  std::map<std::string, Seconds> next{};     ///< round trips to other servers, measured by this one
  double queue = 0;      ///< requests that wait before one that comes now, each for the whole span
  double occupancy = 0;  ///< sequences in the batch that runs
  double batch = 1;      ///< sequences that a step may have and be no slower

  friend bool operator==(const RouteServer&, const RouteServer&) = default;
};

/// What is to be gone through.
struct RouteRequest {
  int start = 0;  ///< blocks [start, end)
  int end = 0;
  std::optional<std::int64_t> cache_tokens{};  ///< that the session may grow to, of the whole batch
};

/// What counts how much. The defaults are published ones.
struct RouteOptions {
  Seconds overhead = 0.018;      ///< of a message, beside its way
  Seconds allocation = 10;       ///< added where the cache is short
  Seconds unknown_delay = 0.15;  ///< one way, where no round trip is known
  Seconds most_delay = 5;        ///< one way: who cannot be reached stays usable
  double rps = 300;              ///< of servers that say nothing
  bool cache_of_used_blocks =
      false;  ///< the cache must hold the blocks that are used, not the whole span
  Seconds full_cache =
      0;  ///< added for a session that takes all that is left, and as much less as it takes less
};

/// A part of a route: `name` does the blocks [start, end).
struct RouteHop {
  std::string name;
  int start = 0;
  int end = 0;

  friend bool operator==(const RouteHop&, const RouteHop&) = default;
};

struct Route {
  bool feasible = false;
  std::string why;               ///< where it is not
  Seconds cost = 0;              ///< of a step through all blocks and back
  std::int64_t picoseconds = 0;  ///< the same in whole numbers, by which routes are compared
  std::vector<RouteHop> path;

  friend bool operator==(const Route&, const Route&) = default;
};

/// Throws OptionError, naming the field, for numbers that cannot be.
void validate(const RouteServer& server, std::string_view name);

void validate(const RouteRequest& request);

void validate(const RouteOptions& options);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/route.ipp>
#endif
