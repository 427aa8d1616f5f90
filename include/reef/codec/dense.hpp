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

/// A codec that sends numbers as they are, in a message with a head and a checksum.
///
///     payload   fp32, one for each number
///
/// \code
/// // given: std::span<const float> values
/// const codec::Dense format;
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// format.encode(values, message);
/// std::vector<float> decoded(values.size());
/// format.decode(message, decoded);  // the same bits
/// \endcode
///
/// | wire       | 32 bits a number                 |
/// | not finite | sent as it is, NaN with its bits |
/// | cost       | a copy, and the checksum         |
struct Dense {
  static constexpr std::string_view name = "dense";
  static constexpr bool exact = true;
  static constexpr bool lossless = true;
  static constexpr bool linear = true;

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const;
  Bytes encode(std::span<const float> values, std::span<std::byte> message) const;
  void decode(std::span<const std::byte> message, std::span<float> values) const;

  /// Encodes `values` and sets them to 0, since the message contains all of them. accumulate() adds the numbers of a
  /// message to `values` while it reads them (concept.hpp).
  Bytes encode_residual(std::span<float> values, std::span<std::byte> message) const;
  void accumulate(std::span<const std::byte> message, std::span<float> values) const;
};

static_assert(codec<Dense> && accumulating_codec<Dense>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/dense.ipp>
#endif
