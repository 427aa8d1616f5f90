#pragma once

#include <string>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/serve/served_span.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE std::string text_of(const ServedSpan& span) {
  return io::Json{{"serves", 1},
                  {"name", span.id.name},
                  {"incarnation", span.id.incarnation},
                  {"address", span.address},
                  {"model", span.model},
                  {"first", span.blocks.first},
                  {"last", span.blocks.last},
                  {"numerics", span.numerics},
                  {"positions", span.positions}}
      .dump();
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
        io::require<std::int64_t>(json, "positions", source)};
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
