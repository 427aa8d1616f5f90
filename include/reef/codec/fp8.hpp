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

/// A codec that sends each number as an 8-bit float, e4m3, scaled so that the largest magnitude of its row is 448.
///
///     payload   largest magnitudes, fp32, one for each row | e4m3, one for each number
///
/// \code
/// // given: std::int64_t columns, std::span<const float> matrix
/// const codec::Fp8 format{.block = columns};
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(matrix.size())));
/// format.encode(matrix, message);
/// \endcode
///
/// | wire   | 8 + 32 / block bits per number                                                               |
/// | error  | 2.6 % of the norm, if normally distributed; 2^-4 of numbers above 2^-14 of the row's largest |
/// | ties   | to even                                                                                      |
/// | not finite | a row with NaN or infinity decodes to NaN                                                |
/// | errors | OptionError for a block below 1                                                              |
///
/// Source: Micikevicius et al., FP8 formats for deep learning, arXiv 2209.05433 (no infinity, NaN is all ones).
struct Fp8 {
  std::int64_t block = 512;  ///< the length of a row: the consecutive numbers that share a scale

  static constexpr CodecId id = CodecId::fp8;
  static constexpr std::string_view name = "fp8";
  static constexpr bool exact = true;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  /// Returns the number of rows (numbers that share a scale) that n numbers fill. Throws OptionError for a block below
  /// 1.
  [[nodiscard]] std::int64_t blocks(std::int64_t n) const;
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message) const;
  void decode(std::span<const std::byte> message, std::span<float> values) const;

  /// Returns the number of scales in a payload of n numbers: one per row, its largest magnitude.
  [[nodiscard]] std::int64_t scales(std::int64_t n) const { return blocks(n); }
  [[nodiscard]] Bytes code_bytes(std::int64_t n) const { return static_cast<Bytes>(n); }
  void quantize(std::span<const float> values, std::span<float> largest, std::span<std::uint8_t> codes) const;
  void dequantize(std::span<const float> largest, std::span<const std::uint8_t> codes, std::span<float> values) const;
};

static_assert(codec<Fp8>);

/// Returns the 8-bit float (e4m3) nearest to a number, ties to even; 448 with the number's sign beyond that, and 0x7f
/// for NaN.
[[nodiscard]] std::uint8_t e4m3_of(float value);
/// Returns the number that an 8-bit float (e4m3) stands for.
[[nodiscard]] float number_of_e4m3(std::uint8_t code);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/fp8.ipp>
#endif
