#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {

namespace detail {

/// Returns the text without its zero bytes, which a quoted file may contain: what() would end at the first one.
inline std::string without_zeros(std::string text) {
  for (char& c : text) c = c == '\0' ? '?' : c;
  return text;
}

}  // namespace detail

[[gnu::cold, gnu::noinline]] REEF_INLINE Error::Error(std::initializer_list<TextPiece> pieces)
    : std::runtime_error(detail::without_zeros(detail::join(pieces))) {}

}  // namespace v0
}  // namespace reef
