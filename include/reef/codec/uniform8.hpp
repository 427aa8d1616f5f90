#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/codec/message.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/threads.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec that sends each number as the nearest of 256 equally spaced values, over six standard deviations around the
/// mean.
///
///     payload   mean, fp32 | step, fp32 | indices, 8 bits, one for each number
///
/// \code
/// // given: std::span<const float> values
/// const codec::Uniform8 format;
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// format.encode(values, message);
/// \endcode
///
/// | wire   | 8 bits per number, and 8 bytes per message                                                              |
/// | rounds | half to even; a number beyond three deviations is sent as the outermost value of its side               |
/// | sums   | those of mean and deviation are in fp64, over parts of 65536 numbers, as sixteen interleaved sums added |
/// |        | pairwise; squares are taken around the mean of their part, then corrected to the mean of all            |
/// | not finite | if one number is NaN or infinite, all decode to NaN                                                 |
///
/// Source: hivemind, UNIFORM_8BIT. Deviation: an index stands for mean + (index - 128) step; hivemind sends the mean of
/// each index's numbers (bucket_means), 1 KiB a message.
struct Uniform8 {
  static constexpr std::string_view name = "uniform8";
  static constexpr bool exact = true;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  struct Scale {
    float mean = 0;
    float step = 0;
  };

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message, const Threads& threads = {}) const;
  void decode(std::span<const std::byte> message, std::span<float> values, const Threads& threads = {}) const;

  [[nodiscard]] Scale quantize(std::span<const float> values, std::span<std::uint8_t> indices,
                               const Threads& threads = {}) const;
  /// Returns the mean of the numbers that were quantised to each of the 256 indices; 0 for an index without numbers.
  [[nodiscard]] static std::array<float, 256> bucket_means(std::span<const float> values,
                                                           std::span<const std::uint8_t> indices);
};

static_assert(codec<Uniform8>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/uniform8.ipp>
#endif
