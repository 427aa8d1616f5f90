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

/// A server, as seen by a client that looks for a route through the blocks (layers) of a model.
struct RouteServer {
  int start = 0;  ///< first block of the model that the server holds; it holds the blocks [start, end)
  int end = 0;
  std::optional<double> rps{};  ///< steps per second through one block; unknown: RouteOptions::rps
  /// Tokens for which the server's key-value cache has room; unknown: enough.
  std::optional<std::int64_t> cache_left{};
  std::optional<Seconds> client_rtt{};  ///< round-trip time from the client in seconds; unknown: RouteOptions' delay
  std::map<std::string, Seconds> next{};     ///< round-trip times to other servers in seconds, measured by this server
  double queue = 0;      ///< the number of requests that already wait, each for all blocks of the server
  double occupancy = 0;  ///< the number of sequences in the batch that runs now
  double batch = 1;      ///< the most sequences that a step can process in the time of a single one

  friend bool operator==(const RouteServer&, const RouteServer&) = default;
};

/// A request for a route through the blocks [start, end).
struct RouteRequest {
  int start = 0;  ///< first requested block of the model; the request is for the blocks [start, end)
  int end = 0;
  /// The most tokens, in the whole batch, that the session may have in a server's cache.
  std::optional<std::int64_t> cache_tokens{};
};

/// Options of the cost of a route. The defaults are those of the published code.
struct RouteOptions {
  Seconds overhead = 0.018;      ///< the overhead of a message in seconds, in addition to its delay
  Seconds allocation = 10;       ///< the seconds added for a server whose cache has too little room
  Seconds unknown_delay = 0.15;  ///< the one-way delay in seconds, where no round trip is known
  Seconds max_delay = 5;  ///< the longest one-way delay in seconds: longer ones are cut, so every server is usable
  double rps = 300;              ///< the rate of servers that announce none, in steps per second
  bool cache_of_used_blocks =
      false;  ///< true: cache is needed for the blocks that the route uses; false: for all blocks of the server
  Seconds full_cache =
      0;  ///< the seconds added if the session needs all of the cache that is left; in proportion if it needs less
};

/// A hop of a route through a model's blocks: the server `name` runs the blocks [start, end).
struct RouteHop {
  std::string name;
  int start = 0;
  int end = 0;

  friend bool operator==(const RouteHop&, const RouteHop&) = default;
};

struct Route {
  bool feasible = false;
  std::string why;               ///< the reason why there is no route, if there is none
  Seconds cost = 0;              ///< the seconds of a step through all blocks and back
  std::int64_t picoseconds = 0;  ///< cost of the route in picoseconds, an integer, by which routes are compared
  std::vector<RouteHop> path;

  friend bool operator==(const Route&, const Route&) = default;
};

/// Throws OptionError, naming the field, for invalid numbers in a server's announcement.
void validate(const RouteServer& server, std::string_view name);

void validate(const RouteRequest& request);

void validate(const RouteOptions& options);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/route.ipp>
#endif
