#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <reef/device/simd.hpp>

namespace reef::inline v0::comm::detail {

/// out[i] = a[i] + b[i], rounded to T. `out` may be either.
struct AddKernel {
  template <class V, class T>
  void run(T* out, const T* a, const T* b, std::int64_t count) const {
    const std::int64_t whole = count / V::width * V::width;
    for (std::int64_t i = 0; i < whole; i += V::width) {
      (V::load(a + i) + V::load(b + i)).store(out + i);
    }
    if (whole == count) return;
    const std::int64_t rest = count - whole;
    (V::load(a + whole, rest) + V::load(b + whole, rest)).store(out + whole, rest);
  }
};

/// out[i] = (...((source[0][i] + source[1][i]) + source[2][i]) + ...), i < count; every sum is rounded
/// to T.
///
/// The order is the order of `sources`, whatever arrived first: the bits depend on nothing else, the
/// instruction set included. One pass; sums of more than two stay in the first-level cache on the way.
/// `out` may be one of the sources.
template <class T>
void fold(void* out, std::span<const void* const> sources, std::int64_t count) {
  constexpr std::int64_t block = 2048;
  alignas(64) std::array<T, block> sum;
  const std::size_t last = sources.size() - 1;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    const auto source = [&](std::size_t s) { return static_cast<const T*>(sources[s]) + begin; };
    T* const to = static_cast<T*>(out) + begin;
    if (last == 0) std::memmove(to, source(0), static_cast<std::size_t>(length) * sizeof(T));
    const T* so_far = source(0);
    for (std::size_t s = 1; s <= last; ++s) {
      T* const next = s == last ? to : sum.data();
      device::run_vectors<T>(AddKernel{}, next, so_far, source(s), length);
      so_far = next;
    }
  }
}

/// fold<T> with the type erased: what an exchange knows of its elements.
using Fold = void (*)(void* out, std::span<const void* const> sources, std::int64_t count);

}  // namespace reef::inline v0::comm::detail
