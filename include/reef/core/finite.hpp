#pragma once

#include <cstdint>
#include <cstring>

#include <reef/core/bfloat16.hpp>

/// \file
/// Tests for NaN and infinity by a number's bits. Comparisons and std::isfinite are unreliable where a build
/// assumes that no number is NaN or infinite (-ffast-math, -ffinite-math-only): these tests hold there too.

namespace reef {
inline namespace v0 {

namespace detail {

/// Returns the bits of a number in a way that the compiler cannot look through: its
/// assumptions about the number, such as that it is not NaN, do not extend to the bits.
template <class Word, class T>
Word opaque_bits(T value) {
  static_assert(sizeof(Word) == sizeof(T));
  Word word = 0;
  std::memcpy(&word, &value, sizeof word);
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
  __asm__("" : "+r"(word));
#endif
  return word;
}

}  // namespace detail

/// Returns true if the value is neither NaN nor infinite.
///
/// \code
/// // given: double loss
/// if (!is_finite(loss)) throw NonFiniteError("my-program: the loss is ", loss, ".");
/// \endcode
[[nodiscard]] inline bool is_finite(float value) {
  return (detail::opaque_bits<std::uint32_t>(value) & 0x7F800000U) != 0x7F800000U;
}
[[nodiscard]] inline bool is_finite(double value) {
  constexpr std::uint64_t exponent = 0x7FF0000000000000U;
  return (detail::opaque_bits<std::uint64_t>(value) & exponent) != exponent;
}
[[nodiscard]] inline bool is_finite(Bfloat16 value) {
  return (value.bits() & 0x7F80U) != 0x7F80U;
}

/// Returns true if least <= value <= most; false for a value that is not finite.
[[nodiscard]] inline bool within(double value, double least, double most) {
  return is_finite(value) && least <= value && value <= most;
}

}  // namespace v0
}  // namespace reef
