#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

/// values[i] = table[indices[i]] for i in [0, n).
inline void look_up(const std::array<float, 256>& table, const std::uint8_t* indices, float* values, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const float first = table[indices[i]];
    const float second = table[indices[i + 1]];
    const float third = table[indices[i + 2]];
    const float fourth = table[indices[i + 3]];
    values[i] = first;
    values[i + 1] = second;
    values[i + 2] = third;
    values[i + 3] = fourth;
  }
  for (; i < n; ++i) values[i] = table[indices[i]];
}

/// values[i] = table[indices[i]] factor for i in [0, n).
inline void look_up_times(const std::array<float, 256>& table, float factor, const std::uint8_t* indices, float* values,
                          std::int64_t n) {
  if (n < 512) {  // the table has 256
    for (std::int64_t i = 0; i < n; ++i) values[i] = table[indices[i]] * factor;
    return;
  }
  std::array<float, 256> scaled;
  for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = table[i] * factor;
  look_up(scaled, indices, values, n);
}

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
