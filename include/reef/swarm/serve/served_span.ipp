#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/serve/served_span.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

inline constexpr std::size_t max_announced_pings = 16;

/// Reads what a server says of its load; members that are not there, or that cannot be, are not known.
inline core::ServerLoad load_of(const io::Json& json) {
  core::ServerLoad load;
  const auto number = [](const io::Json& value, double least) -> std::optional<double> {
    if (!value.is_number()) return {};
    const double read = value.get<double>();
    return std::isfinite(read) && read >= least ? std::optional(read) : std::nullopt;
  };
  const auto member = [&](const char* name, double least) {
    const auto found = json.find(name);
    return found == json.end() ? std::optional<double>() : number(*found, least);
  };
  constexpr double most_positions = 1e15;
  if (const auto rate = member("rate", 0); rate && *rate > 0) load.rate = rate;
  load.batch = member("batch", 1).value_or(1);
  load.queue = member("queue", 0).value_or(0);
  if (const auto room = member("room", 0)) load.room = static_cast<std::int64_t>((std::min)(*room, most_positions));
  const auto pings = json.find("pings");
  if (pings == json.end() || !pings->is_object()) return load;
  for (const auto& [name, seconds] : pings->items()) {
    if (load.pings.size() >= max_announced_pings) break;
    if (const auto read = number(seconds, 0)) load.pings[name] = *read;
  }
  return load;
}

}  // namespace detail

REEF_INLINE std::string text_of(const ServedSpan& span) {
  io::Json json{{"serves", 1},
                {"name", span.id.name},
                {"incarnation", span.id.incarnation},
                {"address", span.address},
                {"model", span.model},
                {"first", span.blocks.first},
                {"last", span.blocks.last},
                {"numerics", span.numerics},
                {"positions", span.positions},
                {"batch", span.load.batch},
                {"queue", span.load.queue}};
  if (span.load.rate) json["rate"] = *span.load.rate;
  if (span.load.room) json["room"] = *span.load.room;
  if (!span.load.pings.empty()) json["pings"] = span.load.pings;
  if (span.draining) json["draining"] = true;
  return json.dump();
}

REEF_INLINE std::optional<ServedSpan> served_span_of(std::string_view text) {
  const std::string source = "a presence";
  try {
    const io::Json json = io::parse_json(std::string(text), source, {.bytes = max_presence_value_bytes, .depth = 4});
    if (!json.is_object() || !json.contains("serves") || io::require<int>(json, "serves", source) != 1) return {};
    ServedSpan span{
        {io::require<std::string>(json, "name", source), io::require<std::uint64_t>(json, "incarnation", source)},
        io::require<std::string>(json, "address", source),
        io::require<std::string>(json, "model", source),
        {io::require<std::int64_t>(json, "first", source), io::require<std::int64_t>(json, "last", source)},
        io::require<std::string>(json, "numerics", source),
        io::require<std::int64_t>(json, "positions", source),
        detail::load_of(json),
        json.contains("draining") && io::require<bool>(json, "draining", source)};
    constexpr std::int64_t most_blocks = 1 << 20;
    if (span.blocks.first < 0 || span.blocks.count() < 1 || span.blocks.last > most_blocks) return {};
    return span;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
