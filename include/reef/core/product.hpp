#pragma once

#include <math.h>

#include <concepts>

#include <reef/core/config.hpp>

namespace reef {
inline namespace v0 {

/// Returns a * b, rounded before anything is added to it. Compilers may fuse a plain product with an addition, which
/// rounds once instead of twice; whether they do depends on flags. A sum with this product is the same everywhere.
///
/// \code
/// const double keep = 1 - product(0.1, 0.01);
/// \endcode
///
/// | cost | one multiplication; compilers do not vectorise a loop of calls: use the vectors of device/simd.hpp |
template <std::floating_point T>
REEF_ALWAYS_INLINE REEF_HOST_DEVICE T product(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4) {
    return ::fmaf(a, b, -0.0F);
  } else {
    return ::fma(a, b, -0.0);
  }
#else
  T result = a * b;
#if defined(__GNUC__) && defined(__x86_64__)
  __asm__("" : "+x"(result));
#elif defined(__GNUC__) && defined(__aarch64__)
  __asm__("" : "+w"(result));
#elif defined(__GNUC__)
  __asm__("" : "+m"(result));
#endif
  return result;
#endif
}

}  // namespace v0
}  // namespace reef
