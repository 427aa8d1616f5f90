#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::plan {

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
inline void validate(const RouteServer& server, std::string_view name) {
  const auto refuse = [&](std::string_view field, double value, std::string_view fix) {
    throw OptionError("reef::plan::RouteServer: ", field, " of '", name, "' is ", value,
                      ".\n  fix: ", fix, ".");
  };
  const auto need = [&](std::string_view field, double value, double least, double most,
                        std::string_view fix) {
    if (!within(value, least, most)) refuse(field, value, fix);
  };
  need("start", server.start, 0, 10'000, "a block from 0 to 10000");
  need("end", server.end, server.start + 1, 10'000, "a block behind start, at most 10000");
  need("rps", server.rps.value_or(1), 0.01, 1e12, "from 0.01 to 1e12 steps a second");
  need("cache", static_cast<double>(server.cache_left.value_or(0)), 0, 1e15, "tokens, 0 or more");
  need("client_rtt", server.client_rtt.value_or(0), 0, 1e9, "seconds from 0 to 1e9");
  for (const auto& [other, rtt] : server.next) need("next", rtt, 0, 1e9, "seconds from 0 to 1e9");
  need("queue", server.queue, 0, 1e9, "requests, from 0 to 1e9");
  need("occupancy", server.occupancy, 0, 1e9, "sequences, from 0 to 1e9");
  need("batch", server.batch, 1, 1e9, "sequences, from 1 to 1e9");
}

inline void validate(const RouteRequest& request) {
  if (request.start < 0 || request.start >= request.end || request.end > 10'000 ||
      request.cache_tokens.value_or(0) < 0 ||
      request.cache_tokens.value_or(0) > 1'000'000'000'000) {
    throw OptionError(
        "reef::plan::RouteRequest: blocks from ", request.start, " to ", request.end, ", ",
        request.cache_tokens.value_or(0),
        " tokens.\n  fix: blocks in ascending order, at most 10000, and tokens from 0 to "
        "1e12.");
  }
}

inline void validate(const RouteOptions& options) {
  const auto need = [](std::string_view field, double value, double least, double most) {
    if (within(value, least, most)) return;
    throw OptionError("reef::plan::RouteOptions: ", field, " is ", value,
                      ".\n  fix: a number from ", least, " to ", most, ".");
  };
  need("overhead", options.overhead, 0, 10);
  need("allocation", options.allocation, 0, 100);
  need("unknown_delay", options.unknown_delay, 0, 100);
  need("most_delay", options.most_delay, 0, 100);
  need("rps", options.rps, 0.01, 1e12);
  need("full_cache", options.full_cache, 0, 100);
}

}  // namespace reef::inline v0::plan
