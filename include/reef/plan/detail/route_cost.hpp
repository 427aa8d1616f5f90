#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include <reef/core/units.hpp>
#include <reef/plan/route.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Whole picoseconds: sums are exact, so a route costs the same in whatever order its parts were added.
/// 1e4 blocks of 100 s, as many hops of 310 s: less than 4.2e6 s, and 9e6 s are a number.
using Picoseconds = std::int64_t;

inline Picoseconds picoseconds(Seconds seconds) { return std::llround(seconds * 1e12); }

/// One way of a round trip.
inline Seconds delay(const std::optional<Seconds>& rtt, const RouteOptions& options) {
  return rtt ? (std::min)(*rtt / 2, options.max_delay) : options.unknown_delay;
}

/// A step through one block: 1 / rps, longer by as much as the batch outgrows what is no slower. At most 100 s.
Seconds block_time(const RouteServer& server, const RouteOptions& options);

/// What comes before a server's first block beside the way there: the message, requests that wait, each
/// through the whole span, and the cache. At most 100 s of waiting.
Seconds entry_time(const RouteServer& server, int used, const RouteRequest& request,
                   const RouteOptions& options);

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/detail/route_cost.ipp>
#endif
