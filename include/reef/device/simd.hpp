#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/detail/vector_portable.hpp>
#include <reef/device/instruction_set.hpp>

#if defined(__x86_64__) && defined(__GNUC__)
#include <reef/device/detail/vector_avx2.hpp>
#include <reef/device/detail/vector_avx512.hpp>
#endif

namespace reef {
inline namespace v0 {
namespace device {

/// \file
/// Vector code written once. A kernel is a class with a member template over the vector type:
///
/// \code
/// // given: float* x, std::int64_t n
/// struct Scale {
///   template <class V>
///   void run(float* x, std::int64_t n, float s) const {
///     for (std::int64_t i = 0; i < n; i += V::width) {
///       (V::load(x + i, n - i) * V(s)).store(x + i, n - i);
///     }
///   }
/// };
/// device::run_vectors<float>(Scale{}, x, n, 2.0F);  // under device::instruction_set()
/// \endcode
///
/// | V       | Vector<T, Isa>: `width` lanes of T, constructed from one value (for all lanes) or loaded        |
/// | bf16    | a vector of floats is also loaded from Bfloat16, and stored to Bfloat16, rounded; T = Bfloat16  |
/// |         | runs the kernel with vectors of floats                                                          |
/// | tails   | load(p, count), store(p, count): the first min(count, width) lanes; load sets the others to 0,  |
/// |         | or to the third argument's lanes; keep(v, count) sets the others to 0                           |
/// | members | + - * / and unary -, fma, sqrt, larger, smaller, select_less, round_even, scale, sum, largest,  |
/// |         | exp; larger and smaller return b where a lane is NaN; sum and largest fold in a fixed order     |
/// | bytes   | load(p) also loads `width` numbers of std::int8_t; look_up(p, table) loads the numbers that     |
/// |         | `width` unsigned bytes index in a table of 256                                                  |
/// | halves  | load_halves(p, count, table) loads those of 16 numbers that half bytes index, the high half     |
/// |         | first; store_halves(p, count, t) stores how many of t[0] < ... < t[14] a lane exceeds; t has 16 |
/// | eighths | load_eighths(p, i, table) loads those of 16 numbers that half byte i of `width` 32-bit words    |
/// |         | index; half byte 0 is the lowest                                                                |
/// | bits    | of floats: store_bytes(p, count) stores numbers in [0, 256), truncated, as bytes; store_keys(p) |
/// |         | stores all lanes as unsigned integers in the same order, from -NaN to NaN;                      |
/// |         | magnitudes_above(v, bits) sets a bit for each lane whose bits without sign are above `bits`     |
/// | cost    | none: everything is inlined into one function of the right target, also at -O2 and              |
/// |         | without any -m flag                                                                             |
/// | double  | always Portable: exact enough for reference results, but slow                                   |

template <class T, class Isa>
REEF_ALWAYS_INLINE Vector<T, Isa>& operator+=(Vector<T, Isa>& a, const Vector<T, Isa>& b) {
  a = a + b;
  return a;
}

namespace detail {

#if defined(__x86_64__) && defined(__GNUC__)

template <class T, class Kernel, class... Arguments>
REEF_TARGET_AVX512 __attribute__((flatten)) void run_avx512(const Kernel& kernel,
                                                            Arguments... arguments) {
  kernel.template run<Vector<T, Avx512>>(arguments...);
}

template <class T, class Kernel, class... Arguments>
REEF_TARGET_AVX2 __attribute__((flatten)) void run_avx2(const Kernel& kernel,
                                                        Arguments... arguments) {
  kernel.template run<Vector<T, Avx2>>(arguments...);
}

#endif

template <class T, class Kernel, class... Arguments>
__attribute__((flatten)) void run_portable(const Kernel& kernel, Arguments... arguments) {
  kernel.template run<Vector<T, Portable>>(arguments...);
}

}  // namespace detail

/// Calls kernel.run<V>(arguments...), with V the vector type of sum_t<T> for the instruction set in use.
template <real T, class Kernel, class... Arguments>
void run_vectors(const Kernel& kernel, Arguments... arguments) {
  using E = sum_t<T>;
#if defined(__x86_64__) && defined(__GNUC__)
  if constexpr (std::is_same_v<E, float>) {
    switch (instruction_set()) {
      case InstructionSet::avx512: return detail::run_avx512<E>(kernel, arguments...);
      case InstructionSet::avx2: return detail::run_avx2<E>(kernel, arguments...);
      case InstructionSet::baseline: break;
    }
  }
#endif
  detail::run_portable<E>(kernel, arguments...);
}

/// Returns exp(x), with error below 1.1 ULP on [-87.3, 88.7]; above it inf, below it 0 (never denormal). NaN gives NaN.
///
///     n = round_even(x / ln 2)    r = x - n ln 2 in two steps    exp(x) = 2^n p(r), p of degree 6
template <class Isa>
REEF_ALWAYS_INLINE Vector<float, Isa> exp(const Vector<float, Isa>& x) {
  using V = Vector<float, Isa>;
  const V low(-87.33654F);
  const V high(88.8F);                       // 2^128 p(r) is above the largest float: inf
  // A number beyond [low, high] becomes the bound; a NaN stays, since both functions then return their second operand.
  const V clamped = smaller(high, larger(low, x));
  const V n = round_even(clamped * V(1.44269504F));
  V r = fma(n, V(-0.693359375F), clamped);
  r = fma(n, V(2.12194440e-4F), r);
  V p(1.9875691500e-4F);
  p = fma(p, r, V(1.3981999507e-3F));
  p = fma(p, r, V(8.3334519073e-3F));
  p = fma(p, r, V(4.1665795894e-2F));
  p = fma(p, r, V(1.6666665459e-1F));
  p = fma(p, r, V(5.0000001201e-1F));
  p = fma(p, r * r, r) + V(1.0F);
  return select_less(x, low, V(0.0F), scale(p, n));
}

template <class Isa>
Vector<double, Isa> exp(const Vector<double, Isa>& x) {
  double lanes[Vector<double, Isa>::width];
  x.store(lanes);
  for (double& lane : lanes) lane = std::exp(lane);
  return Vector<double, Isa>::load(lanes);
}

}  // namespace device
}  // namespace v0
}  // namespace reef
