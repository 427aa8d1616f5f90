#pragma once

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {

namespace detail {

REEF_INLINE std::string without_zeros(std::string text) {
  for (char& c : text) c = c == '\0' ? '?' : c;
  return text;
}

}  // namespace detail

}  // namespace v0
}  // namespace reef
