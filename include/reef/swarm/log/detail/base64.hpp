#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Returns bytes in base64, padded. Source: RFC 4648, section 4.
std::string base64_of(std::string_view bytes);

/// Returns the bytes that a padded base64 text stands for; nothing where the text is none.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/base64.ipp>
#endif
