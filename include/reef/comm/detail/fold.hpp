#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <reef/device/simd.hpp>

namespace reef::inline v0::comm::detail {

struct FoldKernel {
  template <class V, class T>
  void run(T* out, const void* const* sources, std::size_t ranks, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; i += V::width) {
      V sum = V::load(static_cast<const T*>(sources[0]) + i, count - i);
      for (std::size_t s = 1; s < ranks; ++s) {
        sum = sum + V::load(static_cast<const T*>(sources[s]) + i, count - i);
      }
      sum.store(out + i, count - i);
    }
  }
};

/// out[i] = (...((source[0][i] + source[1][i]) + source[2][i]) + ...), i < count.
///
/// The order is the order of `sources`, whatever arrived first: the bits depend on nothing else, the
/// instruction set included. One pass, at the speed of the memory. `out` may be one of the sources.
template <class T>
void fold(void* out, std::span<const void* const> sources, std::int64_t count) {
  device::run_vectors<T>(FoldKernel{}, static_cast<T*>(out), sources.data(), sources.size(), count);
}

/// fold<T> with the type erased: what an exchange knows of its elements.
using Fold = void (*)(void* out, std::span<const void* const> sources, std::int64_t count);

}  // namespace reef::inline v0::comm::detail
