#pragma once

#include <reef/core/inline.hpp>
#include <reef/plan/detail/route_cost.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

REEF_INLINE Seconds block_time(const RouteServer& server, const RouteOptions& options) {
  const Seconds alone = 1.0 / server.rps.value_or(options.rps);
  const double share = (server.occupancy + 1) / server.batch;
  return share > 1 ? (std::min)(alone * share, 100.0) : alone;
}

REEF_INLINE Seconds entry_time(const RouteServer& server, int used, const RouteRequest& request,
                               const RouteOptions& options) {
  Seconds time = options.overhead;
  const int span = server.end - server.start;
  if (server.queue > 0)
    time += (std::min)(server.queue * span * block_time(server, options), 100.0);
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

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
