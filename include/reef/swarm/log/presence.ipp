#pragma once

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json_string.hpp>
#include <reef/swarm/log/presence.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE void require_presence(std::string_view key, std::string_view value, Seconds ttl) {
  const auto require_text = [](std::string_view what, std::string_view text, Bytes least, Bytes most) {
    bool valid = text.size() >= least && text.size() <= most;
    for (std::size_t i = 0, length = 0; valid && i < text.size(); i += length) {
      length = io::detail::utf8_length(text.substr(i));
      valid = length != 0;
    }
    if (!valid) {
      throw OptionError("reef::swarm: the ", what, " of a presence, ", in_quotes(text), ", has ", text.size(),
                        " bytes.\n  fix: ", least, " to ", most, " bytes of UTF-8.");
    }
  };
  require_text("key", key, 1, max_presence_key_bytes);
  require_text("value", value, 0, max_presence_value_bytes);
  if (!(ttl > 0 && ttl <= 3600)) {
    throw OptionError("reef::swarm: the lease of a presence is ", ttl, " s.\n  fix: above 0, at most 3600 s.");
  }
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
