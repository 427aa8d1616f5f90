#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/message.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/threads.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec that sends each number as the nearest of 16 quantiles of a normal distribution, times the largest magnitude
/// of its block.
///
///     payload            largest magnitudes, fp32, one for each block | codes, two a byte, the first in the high half
///     payload, nested    mean of the largest, fp32 | each minus that mean, as Blockwise8 in blocks of 256 | codes
///
/// \code
/// // given: std::span<const float> values
/// const codec::NormalFloat4 format{.nested = true};
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// format.encode(values, message);
/// \endcode
///
/// | wire   | 4.5 bits a number, nested 4.127                            |
/// | error  | 9.2 % of the norm, for normally distributed numbers        |
/// | ties   | to the lower code                                          |
/// | not finite | a block with NaN decodes to NaN; nested, all blocks do |
///
/// Source: Dettmers et al., QLoRA, arXiv 2305.14314, section 3; the values are those of bitsandbytes.
struct NormalFloat4 {
  std::int64_t block = 64;
  bool nested = false;

  static constexpr std::string_view name = "normal_float4";
  static constexpr bool exact = true;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  /// The scales in a 4-bit message: the largest magnitudes of blocks, and their own codes where nested (quantised,
  /// too).
  struct Scales {
    std::vector<float> largest{};
    float offset = 0;  ///< the mean of the largest magnitudes, where scales are quantised, too (nested)
    /// The largest magnitude of (magnitude - offset), for each 256 blocks, where scales are quantised, too.
    std::vector<float> largest_above{};
    /// Codes of (magnitude - offset), one for each block, where scales are quantised, too.
    std::vector<std::uint8_t> indices{};
  };

  [[nodiscard]] std::int64_t blocks(std::int64_t n) const { return (n + block - 1) / block; }
  /// Returns the bytes of a message of n numbers. Throws OptionError for a block that is not even, or below 2.
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message, const Threads& threads = {}) const;
  void decode(std::span<const std::byte> message, std::span<float> values, const Threads& threads = {}) const;

  /// Computes the parts of a 4-bit message: returns the scales, writes the codes to `packed`, of (n + 1) / 2 bytes.
  [[nodiscard]] Scales quantize(std::span<const float> values, std::span<std::uint8_t> packed,
                                const Threads& threads = {}) const;
  void dequantize(std::span<const float> largest, std::span<const std::uint8_t> packed,
                  std::span<float> values, const Threads& threads = {}) const;
  /// Returns the largest magnitudes of blocks as the receiver decodes them.
  [[nodiscard]] std::vector<float> largest_of(const Scales& scales) const;

private:
  static constexpr Blockwise8 above{256};
  [[nodiscard]] Bytes scale_bytes(std::int64_t n) const;
};

static_assert(codec<NormalFloat4>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/normal_float4.ipp>
#endif
