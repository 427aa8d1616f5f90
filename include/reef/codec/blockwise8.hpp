#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/codec/message.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/threads.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec that sends each number as the nearest value of the 8-bit dynamic code, times the largest magnitude of its
/// block.
///
///     payload   largest magnitudes, fp32, one for each block | indices, 8 bits, one for each number
///
/// \code
/// // given: std::span<const float> values
/// const codec::Blockwise8 format{.block = 4096};
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// format.encode(values, message);
/// std::vector<float> decoded(values.size());
/// format.decode(message, decoded);
/// \endcode
///
/// | wire   | 8 + 32 / block bits per number; the table of the code is not sent                     |
/// | error  | 1.3 % of the norm, for normally distributed numbers in blocks of 4096                 |
/// | ties   | to the lower index; a block of zeros has index 0, and decodes to -0                   |
/// | not finite | a block with NaN decodes to NaN; one with infinity to numbers that are not finite |
///
/// Source: Dettmers et al., 8-bit optimizers via block-wise quantization, arXiv 2110.02861; Petals sends it
/// (arXiv 2312.08361). Deviation: the lowest value stays -0.993, which bitsandbytes 0.41 overwrites with -1.
struct Blockwise8 {
  std::int64_t block = 4096;

  static constexpr CodecId id = CodecId::blockwise8;
  static constexpr std::string_view name = "blockwise8";
  static constexpr bool exact = true;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  /// Returns the number of blocks (numbers that share a scale) that n numbers fill. Throws OptionError for a block
  /// below 1.
  [[nodiscard]] std::int64_t blocks(std::int64_t n) const;
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  /// Returns the head (format, parameters, count) of a message of n numbers.
  [[nodiscard]] MessageHead head(std::int64_t n) const {
    return {CodecId::blockwise8, name, static_cast<std::uint64_t>(block), n};
  }
  Bytes encode(std::span<const float> values, std::span<std::byte> message, const Threads& threads = {}) const;
  void decode(std::span<const std::byte> message, std::span<float> values, const Threads& threads = {}) const;

  /// Returns the number of scales in a payload of n numbers: one per block, its largest magnitude. With code_bytes,
  /// quantize and dequantize, callers build messages that arrange scales and codes in another way.
  [[nodiscard]] std::int64_t scales(std::int64_t n) const { return blocks(n); }
  [[nodiscard]] Bytes code_bytes(std::int64_t n) const { return static_cast<Bytes>(n); }
  void quantize(std::span<const float> values, std::span<float> largest, std::span<std::uint8_t> indices,
                const Threads& threads = {}) const;
  void dequantize(std::span<const float> largest, std::span<const std::uint8_t> indices,
                  std::span<float> values, const Threads& threads = {}) const;
};

static_assert(codec<Blockwise8>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/blockwise8.ipp>
#endif
