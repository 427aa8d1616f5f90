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

/// A codec that sends each number as bfloat16: the upper half of its bits, rounded (core/bfloat16.hpp).
///
///     payload   bfloat16, one for each number
///
/// \code
/// // given: std::span<const float> values
/// const codec::Bf16 format;
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// format.encode(values, message);
/// \endcode
///
/// | wire       | 16 bits a number                                                      |
/// | error      | at most 2^-9 of each number that is not denormal; 0.17 % of the norm  |
/// | ties       | to even                                                               |
/// | again      | decoded numbers encode to the same bytes                              |
/// | not finite | stays so; a number beyond the largest by half a step becomes infinite |
struct Bf16 {
  static constexpr std::string_view name = "bf16";
  static constexpr bool exact = true;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  /// Returns the head (format, parameters, count) of a message of n numbers.
  [[nodiscard]] MessageHead head(std::int64_t n) const { return {CodecId::bf16, name, 0, n}; }
  Bytes encode(std::span<const float> values, std::span<std::byte> message) const;
  void decode(std::span<const std::byte> message, std::span<float> values) const;
};

static_assert(codec<Bf16>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/bf16.ipp>
#endif
