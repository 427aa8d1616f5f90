#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/codec/concept.hpp>
#include <reef/codec/message.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec that sends each number as its sign, times the mean magnitude of its block: the factor with the least error
/// in norm.
///
///     payload   mean magnitudes, fp32, one for each block | signs, eight a byte, the first lowest, 1 for below 0
///
/// \code
/// #include <reef/codec/error_feedback.hpp>
/// // given: codec::Sign inner, std::span<const float> values, std::span<float> memory
/// const codec::ErrorFeedback<codec::Sign> format{inner};  // without it, small numbers are never heard of
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// format.encode(values, memory, memory, message);
/// \endcode
///
/// | wire   | 1 + 32 / block bits per number                                             |
/// | error  | 60 % of the norm, for normally distributed numbers                         |
/// | zero   | is sent by its sign bit: 0 decodes to the mean magnitude, -0 to minus that |
/// | not finite | a block with NaN decodes to NaN; one with infinity to infinity         |
/// | errors | OptionError for a block below 1                                            |
///
/// Source: Seide et al., 1-bit stochastic gradient descent, Interspeech 2014; EF-SignSGD, arXiv 1901.09847.
struct Sign {
  std::int64_t block = 4096;

  static constexpr CodecId id = CodecId::sign;
  static constexpr std::string_view name = "sign";
  static constexpr bool exact = true;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  /// Returns the number of blocks (numbers that share a scale) that n numbers fill. Throws OptionError for a block
  /// below 1.
  [[nodiscard]] std::int64_t blocks(std::int64_t n) const;
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message) const;
  void decode(std::span<const std::byte> message, std::span<float> values) const;

  /// Returns the number of scales in the message of n numbers: one per block, its mean magnitude.
  [[nodiscard]] std::int64_t scales(std::int64_t n) const { return blocks(n); }
  [[nodiscard]] Bytes code_bytes(std::int64_t n) const { return static_cast<Bytes>((n + 7) / 8); }
  void quantize(std::span<const float> values, std::span<float> magnitudes, std::span<std::uint8_t> packed) const;
  void dequantize(std::span<const float> magnitudes, std::span<const std::uint8_t> packed,
                  std::span<float> values) const;
};

static_assert(codec<Sign>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/sign.ipp>
#endif
