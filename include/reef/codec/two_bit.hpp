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

/// A codec that sends each number as one of four bins of equal width over six standard deviations around the mean, the
/// outer two open; it decodes to the mean of its bin's numbers. Meant for numbers that a top-k selects: two clusters,
/// on either side of 0.
///
///     payload   for each block the means of its four bins, fp32, 0 for an empty bin | codes, four a byte, first lowest
///
/// \code
/// // given: std::span<const float> values
/// const codec::TwoBit format;  // one block; {.block = 4096}: means for each 4096 numbers
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// format.encode(values, message);
/// \endcode
///
/// | wire   | 2 bits a number, and 16 bytes a block                                                                  |
/// | error  | of normally distributed numbers 40 % of the norm; of the largest 64 in 4096 11 %, or 7 % with sigmas 4 |
/// | ties   | a number on the border of two bins belongs to the upper bin                                            |
/// | not finite | the block decodes to NaN                                                                           |
/// | errors | OptionError for a block below 0, or sigmas outside 0.001 to 1000                                       |
///
/// Source: SparseLoCo, arXiv 2508.15706, and Covenant, arXiv 2603.08163, after hivemind's uniform quantisation.
/// Deviation: theirs rounds, so that its bins begin half a bin lower, and three of them cover one of two clusters.
struct TwoBit {
  std::int64_t block = 0;  ///< the count of numbers that share four means; 0: all numbers do
  /// The number of standard deviations that the four bins span; used by the sender alone, since means are sent.
  float sigmas = 6;

  static constexpr CodecId id = CodecId::two_bit;
  static constexpr std::string_view name = "two_bit";
  static constexpr bool exact = true;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  /// Returns the number of blocks (numbers that share four means) that n numbers fill. Throws OptionError for a block
  /// below 0 or impossible sigmas.
  [[nodiscard]] std::int64_t blocks(std::int64_t n) const;
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message) const;
  void decode(std::span<const std::byte> message, std::span<float> values) const;

  /// Returns the number of scales in a message of n numbers: the four means of each block.
  [[nodiscard]] std::int64_t scales(std::int64_t n) const { return 4 * blocks(n); }
  [[nodiscard]] Bytes code_bytes(std::int64_t n) const { return static_cast<Bytes>((n + 3) / 4); }
  void quantize(std::span<const float> values, std::span<float> means, std::span<std::uint8_t> packed) const;
  void dequantize(std::span<const float> means, std::span<const std::uint8_t> packed, std::span<float> values) const;
};

static_assert(codec<TwoBit>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/two_bit.ipp>
#endif
