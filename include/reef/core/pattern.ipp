#pragma once

#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/core/pattern.hpp>

namespace reef {
inline namespace v0 {

REEF_INLINE bool fits_pattern(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star =
      std::string_view::npos;  // the last, and what of the name it stands for ends here
  std::size_t behind = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++behind;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace v0
}  // namespace reef
