#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/core/units.hpp>

namespace reef::inline v0::codec {

/// Turns numbers into the bytes that go over the wire, and back. A plain value: its members are what the format leaves
/// open, and both ends have the same.
///
///     encoded_bytes(n)          the most that n numbers take; exactly that where `exact`
///     encode(values, message)   message has encoded_bytes(n) bytes; returns how many are used, from its beginning
///     decode(message, values)   writes all values, or throws DecodeError and writes none
///
/// | facts  | `name`; `exact`: lengths do not depend on data; `lossless`: decode gives what was encoded, bit for bit;   |
/// |        | `linear`: messages of sums are sums of messages, so they may be added undecoded                           |
/// | laws   | a pure function of values and members, whatever the machine and its threads; a message that is cut,       |
/// |        | damaged or of something else is refused                                                                   |
/// | models | Blockwise8, NormalFloat4, TopK, Uniform8                                                                   |
///
/// \code
/// // given: std::span<const float> values
/// const codec::Blockwise8 format;
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// message.resize(format.encode(values, message));
/// static_assert(codec::codec<codec::Blockwise8>);
/// \endcode
template <class C>
concept codec = std::copyable<C> &&
                requires(const C& format, std::int64_t n, std::span<const float> values,
                         std::span<float> decoded, std::span<std::byte> message,
                         std::span<const std::byte> received) {
                  { C::name } -> std::convertible_to<std::string_view>;
                  { C::exact } -> std::convertible_to<bool>;
                  { C::lossless } -> std::convertible_to<bool>;
                  { C::linear } -> std::convertible_to<bool>;
                  { format.encoded_bytes(n) } -> std::same_as<Bytes>;
                  { format.encode(values, message) } -> std::same_as<Bytes>;
                  { format.decode(received, decoded) } -> std::same_as<void>;
                };

}  // namespace reef::inline v0::codec
