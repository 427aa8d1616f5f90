#pragma once

#include <map>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/route.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The input of a routing in a file: the request for blocks of a model, and the servers by name.
struct RouteCase {
  RouteRequest request;
  std::map<std::string, RouteServer> servers;
};

/// Reads the input of a routing through servers from JSON.
///
/// | L, start, end       | the number of blocks of the model; the half-open range of requested blocks |
/// | servers             | by name: {start, end, rps, cache, next, queue, occupancy, batch} as in     |
/// |                     | RouteServer; rps, cache, next may be null, the last three may be left out  |
/// | client_rtt          | round trips in seconds by name; "inf": cannot be reached; missing: unknown |
/// | cache_tokens_needed | RouteRequest::cache_tokens; may be null or left out                        |
/// | errors              | DecodeError, naming the entry                                              |
///
/// \code
/// const plan::RouteCase read = plan::route_from_json(io::read_json("swarm.json"), "swarm.json");
/// plan::Router router(read.request);
/// for (const auto& [name, server] : read.servers) router.set(name, server);
/// \endcode
RouteCase route_from_json(const io::Json& json, std::string_view source);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/route_json.ipp>
#endif
