#pragma once

#include <cstdint>
#include <cstring>

#include <reef/core/config.hpp>

namespace reef {
inline namespace v0 {

/// A 16-bit number, the upper half of a float: 1 sign, 8 exponent and 7 fraction bits. It is for storage,
/// not for arithmetic: it converts to float implicitly, from float only explicitly, since that rounds.
///
/// | range    | the range of float, denormal numbers included                                |
/// | rounding | to the nearest number, ties to even; relative error at most 2^-8, except for |
/// |          | denormal numbers; NaN stays NaN. A double is first rounded to float          |
///
/// \code
/// const Bfloat16 stored(0.1F);    // rounds to 0.10009765625
/// const float x = 2.0F * stored;  // is computed in fp32
/// \endcode
class Bfloat16 {
public:
  Bfloat16() = default;
  REEF_HOST_DEVICE explicit Bfloat16(float value) {
    std::uint32_t word = 0;
    memcpy(&word, &value, sizeof word);
    const bool nan = (word & 0x7FFFFFFFU) > 0x7F800000U;
    const std::uint32_t rounded = word + 0x7FFFU + (word >> 16 & 1U);
    bits_ = static_cast<std::uint16_t>((nan ? word | 0x400000U : rounded) >> 16);
  }
  REEF_HOST_DEVICE explicit Bfloat16(double value) : Bfloat16(static_cast<float>(value)) {}
  REEF_HOST_DEVICE explicit Bfloat16(int value) : Bfloat16(static_cast<float>(value)) {}

  REEF_HOST_DEVICE operator float() const {  // NOLINT(google-explicit-constructor): exact
    const std::uint32_t word = static_cast<std::uint32_t>(bits_) << 16;
    float value = 0;
    memcpy(&value, &word, sizeof value);
    return value;
  }

  REEF_HOST_DEVICE Bfloat16& operator+=(float other) {
    return *this = Bfloat16(static_cast<float>(*this) + other);
  }

  [[nodiscard]] static constexpr Bfloat16 from_bits(std::uint16_t bits) {
    Bfloat16 value;
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] constexpr std::uint16_t bits() const { return bits_; }

private:
  std::uint16_t bits_ = 0;
};

static_assert(sizeof(Bfloat16) == 2);

}  // namespace v0
}  // namespace reef
