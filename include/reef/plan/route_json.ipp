#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/number_json.hpp>
#include <reef/plan/route_json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

namespace detail {

/// Round trips by name: seconds, "inf" for who cannot be reached, null for who was not asked.
inline std::map<std::string, Seconds> rtts_from_json(const io::Json& json,
                                                     std::string_view source) {
  if (!json.is_object()) {
    throw DecodeError(
        "reef::plan: ", source,
        " is no object.\n  fix: round trips in seconds by the names of servers, or {}.");
  }
  constexpr Seconds longest = 1e9;
  std::map<std::string, Seconds> rtts;
  for (const auto& [name, rtt] : json.items()) {
    if (rtt.is_null()) continue;
    if (rtt != "inf" && (!rtt.is_number() || !within(rtt.get<double>(), 0, longest))) {
      throw DecodeError("reef::plan: ", source, " says ", rtt.dump(), " of ", io::Json(name).dump(),
                        ".\n  fix: seconds from 0 to 1e9, \"inf\", or null.");
    }
    rtts[name] = rtt == "inf" ? longest : rtt.get<double>();
  }
  return rtts;
}

inline RouteServer route_server_from_json(const io::Json& json, int blocks, std::string_view source,
                                          const std::string& at) {
  const std::string inside = concat(source, ": ", at);
  if (!json.is_object()) {
    throw DecodeError("reef::plan: ", inside,
                      " is no object.\n  fix: {start, end, rps, cache, next}.");
  }
  io::require_known_keys(json,
                         std::array<std::string_view, 8>{"start", "end", "rps", "cache", "next",
                                                         "queue", "occupancy", "batch"},
                         source, at);
  RouteServer server;
  server.start = count_from_json(json, "start", 0, blocks - 1, inside);
  server.end = count_from_json(json, "end", server.start + 1, blocks, inside);
  const auto has = [&](const char* key) { return json.contains(key) && !json[key].is_null(); };
  if (has("rps")) server.rps = number_from_json(json, "rps", 0.01, 1e12, inside);
  if (has("cache")) {
    server.cache_left = io::require<std::int64_t>(json, "cache", inside);
    number_from_json(json, "cache", 0, 1e15, inside);
  }
  if (has("next")) server.next = rtts_from_json(json["next"], inside + ".next");
  if (has("queue")) server.queue = number_from_json(json, "queue", 0, 1e9, inside);
  if (has("occupancy")) server.occupancy = number_from_json(json, "occupancy", 0, 1e9, inside);
  if (has("batch")) server.batch = number_from_json(json, "batch", 1, 1e9, inside);
  return server;
}

}  // namespace detail

REEF_INLINE RouteCase route_from_json(const io::Json& json, std::string_view source) {
  constexpr int most = 10'000;
  constexpr std::array<std::string_view, 6> known{"L",       "start",      "end",
                                                  "servers", "client_rtt", "cache_tokens_needed"};
  io::require_known_keys(json, known, source);
  RouteCase read;
  const int blocks = count_from_json(json, "L", 1, most, source);
  read.request.start = count_from_json(json, "start", 0, blocks - 1, source);
  read.request.end = count_from_json(json, "end", read.request.start + 1, blocks, source);
  if (json.contains("cache_tokens_needed") && !json["cache_tokens_needed"].is_null()) {
    read.request.cache_tokens = io::require<std::int64_t>(json, "cache_tokens_needed", source);
    number_from_json(json, "cache_tokens_needed", 0, 1e12, source);
  }
  const auto servers = io::require<io::Json>(json, "servers", source);
  if (!servers.is_object() || servers.size() > std::size_t{most}) {
    throw DecodeError("reef::plan: ", source, ": 'servers' is ",
                      servers.is_object() ? concat("of ", servers.size()) : "no object",
                      ".\n  fix: at most ", most, " servers by name.");
  }
  for (const auto& [name, server] : servers.items()) {
    read.servers[name] =
        detail::route_server_from_json(server, blocks, source, concat("servers.", name));
  }
  const auto rtts =
      detail::rtts_from_json(io::value_or<io::Json>(json, "client_rtt", io::Json::object(), source),
                             concat(source, ": client_rtt"));
  for (const auto& [name, rtt] : rtts) {
    const auto server = read.servers.find(name);
    if (server != read.servers.end()) server->second.client_rtt = rtt;
  }
  return read;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
