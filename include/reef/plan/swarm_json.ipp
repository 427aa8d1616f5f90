#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/number_json.hpp>
#include <reef/plan/swarm_json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

namespace detail {

inline SwarmServer swarm_server_from_json(const io::Json& json, int blocks, std::string_view source,
                                          const std::string& at) {
  const std::string inside = concat(source, ": ", at);
  if (!json.is_object()) {
    throw DecodeError("reef::plan: ", inside,
                      " is no object.\n  fix: {id, start, end, thr, state}.");
  }
  io::require_known_keys(
      json, std::array<std::string_view, 7>{"id", "start", "end", "K", "thr", "state", "old_start"},
      source, at);
  SwarmServer server;
  server.id = io::require<std::string>(json, "id", inside);
  server.throughput = to_throughput(number_from_json(json, "thr", 0, 1e9, inside));
  if (json.contains("start")) {
    server.start = count_from_json(json, "start", 0, blocks - 1, inside);
    server.length = count_from_json(json, "end", server.start + 1, blocks, inside) - server.start;
  } else {
    server.length = count_from_json(json, "K", 1, blocks, inside);
  }
  if (json.contains("old_start"))
    server.old_start = count_from_json(json, "old_start", 0, blocks - server.length, inside);
  const auto state = io::value_or<std::string>(json, "state", "ONLINE", inside);
  if (state == "OFFLINE" || state == "JOINING") {
    server.state = state == "OFFLINE" ? ServerState::offline : ServerState::joining;
  } else if (state != "ONLINE") {
    throw DecodeError("reef::plan: ", inside, ".state is ", io::Json(state).dump(),
                      ".\n  fix: ONLINE, JOINING or OFFLINE.");
  }
  return server;
}

}  // namespace detail

REEF_INLINE Swarm swarm_from_json(const io::Json& json, std::string_view source) {
  Swarm swarm;
  swarm.blocks = count_from_json(json, "L", 1, Swarm::max_blocks, source);
  const auto entries = io::require<io::Json>(json, "servers", source);
  if (!entries.is_array() || entries.size() > std::size_t{Swarm::max_servers}) {
    throw DecodeError("reef::plan: ", source, ": 'servers' is ",
                      entries.is_array() ? concat("a list of ", entries.size()) : "no list",
                      ".\n  fix: a list of at most ", Swarm::max_servers, " servers.");
  }
  std::map<std::string, std::size_t, std::less<>> seen;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    SwarmServer server = detail::swarm_server_from_json(entries[i], swarm.blocks, source,
                                                        concat("servers[", i, "]"));
    const auto [at, is_new] = seen.emplace(server.id, swarm.servers.size());
    if (is_new) {
      swarm.servers.push_back(std::move(server));
      continue;
    }
    SwarmServer& other = swarm.servers[at->second];
    if (server.state == other.state) {
      throw DecodeError("reef::plan: ", source, ": servers[", i, "] says again where '", server.id,
                        "' is.\n  fix: one record of each server and state.");
    }
    if (server.state > other.state) other = std::move(server);
  }
  swarm.validate();
  return swarm;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
