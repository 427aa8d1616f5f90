#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace reef::inline v0::comm::detail {

inline constexpr std::int64_t fold_block = 1024;

/// sum[i] += add[i] over a whole block: the constant count lets every compiler vectorise it at -O2.
template <class T>
inline void add_block(T* __restrict sum, const T* __restrict add) {
  for (std::int64_t i = 0; i < fold_block; ++i) sum[i] += add[i];
}

/// out[i] = (...((source[0][i] + source[1][i]) + source[2][i]) + ...), i < count.
///
/// The order is the order of `sources`, whatever arrived first: the bits depend on nothing else.
/// One pass; the sum stays in the first-level cache. `out` may be one of the sources.
template <class T>
void fold(void* out, std::span<const void* const> sources, std::int64_t count) {
  alignas(64) std::array<T, fold_block> sum;
  for (std::int64_t begin = 0; begin < count; begin += fold_block) {
    const std::int64_t length = std::min(fold_block, count - begin);
    const auto bytes = static_cast<std::size_t>(length) * sizeof(T);
    std::memcpy(sum.data(), static_cast<const T*>(sources[0]) + begin, bytes);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      const T* const add = static_cast<const T*>(sources[s]) + begin;
      if (length == fold_block) {
        add_block(sum.data(), add);
      } else {
        for (std::int64_t i = 0; i < length; ++i) sum[static_cast<std::size_t>(i)] += add[i];
      }
    }
    std::memcpy(static_cast<T*>(out) + begin, sum.data(), bytes);
  }
}

/// fold<T> with the type erased: what an exchange knows of its elements.
using Fold = void (*)(void* out, std::span<const void* const> sources, std::int64_t count);

}  // namespace reef::inline v0::comm::detail
