#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// out[i] = a[i] + b[i], rounded to what `out` is of, which may be either of them.
struct AddKernel {
  template <class V, class Out, class A, class B>
  void run(Out* out, const A* a, const B* b, std::int64_t count) const {
    const std::int64_t whole = count / V::width * V::width;
    for (std::int64_t i = 0; i < whole; i += V::width) {
      (V::load(a + i) + V::load(b + i)).store(out + i);
    }
    if (whole == count) return;
    const std::int64_t rest = count - whole;
    (V::load(a + whole, rest) + V::load(b + whole, rest)).store(out + whole, rest);
  }
};

/// out[i] = a[i], of a narrower type.
struct WidenKernel {
  template <class V, class Out, class A>
  void run(Out* out, const A* a, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; i += V::width) {
      V::load(a + i, count - i).store(out + i, count - i);
    }
  }
};

/// out[i] = (...((source[0][i] + source[1][i]) + source[2][i]) + ...), i < count; sources are of T, and
/// every sum is rounded to Sum.
///
/// The order is the order of `sources`, whatever arrived first: the bits depend on nothing else, the
/// instruction set included. One pass; sums of more than two stay in the first-level cache on the way.
/// `out` may be one of the sources, if they are of its type.
template <class T, class Sum = T>
void fold(void* out, std::span<const void* const> sources, std::int64_t count) {
  constexpr std::int64_t block = 2048;
  alignas(64) std::array<Sum, block> sum;
  const std::size_t last = sources.size() - 1;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = (std::min)(block, count - begin);
    const auto source = [&](std::size_t s) { return static_cast<const T*>(sources[s]) + begin; };
    Sum* const to = static_cast<Sum*>(out) + begin;
    if (last == 0) {
      if constexpr (std::is_same_v<T, Sum>) {
        std::memmove(to, source(0), static_cast<std::size_t>(length) * sizeof(T));
      } else {
        device::run_vectors<Sum>(WidenKernel{}, to, source(0), length);
      }
    }
    for (std::size_t s = 1; s <= last; ++s) {
      Sum* const next = s == last ? to : sum.data();
      if (s == 1) {
        device::run_vectors<Sum>(AddKernel{}, next, source(0), source(1), length);
      } else {
        device::run_vectors<Sum>(AddKernel{}, next, static_cast<const Sum*>(sum.data()), source(s),
                                 length);
      }
    }
  }
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
