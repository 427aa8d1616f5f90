#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include <reef/core/units.hpp>
#include <reef/plan/route.hpp>

namespace reef::inline v0::plan::detail {

/// Whole picoseconds: sums are exact, so a route costs the same in whatever order its parts were added.
/// 1e4 blocks of 100 s, as many hops of 310 s: less than 4.2e6 s, and 9e6 s are a number.
using Picoseconds = std::int64_t;

inline Picoseconds picoseconds(Seconds seconds) { return std::llround(seconds * 1e12); }

/// One way of a round trip.
inline Seconds delay(const std::optional<Seconds>& rtt, const RouteOptions& options) {
  return rtt ? std::min(*rtt / 2, options.most_delay) : options.unknown_delay;
}

/// A step through one block: 1 / rps, longer by as much as the batch outgrows what is no slower. At most 100 s.
inline Seconds block_time(const RouteServer& server, const RouteOptions& options) {
  const Seconds alone = 1.0 / server.rps.value_or(options.rps);
  const double share = (server.occupancy + 1) / server.batch;
  return share > 1 ? std::min(alone * share, 100.0) : alone;
}

/// What comes before a server's first block beside the way there: the message, requests that wait, each
/// through the whole span, and the cache. At most 100 s of waiting.
inline Seconds entry_time(const RouteServer& server, int used, const RouteRequest& request,
                          const RouteOptions& options) {
  Seconds time = options.overhead;
  const int span = server.end - server.start;
  if (server.queue > 0) time += std::min(server.queue * span * block_time(server, options), 100.0);
  if (!request.cache_tokens || !server.cache_left) return time;
  // Keys and values: two for each token and block.
  const std::int64_t need =
      2 * *request.cache_tokens * (options.cache_of_used_blocks ? used : span);
  if (need > *server.cache_left) return time + options.allocation;
  if (options.full_cache > 0 && need > 0)
    time +=
        options.full_cache * static_cast<double>(need) / static_cast<double>(*server.cache_left);
  return time;
}

}  // namespace reef::inline v0::plan::detail
