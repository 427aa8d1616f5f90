#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/codec/threads.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// Turns numbers into the bytes that go over the wire, and back. A codec is a plain value: its members are the parameters
/// of the format, and both ends have equal ones.
///
///     encoded_bytes(n)          the most that n numbers take; exactly that where `exact`
///     encode(values, message)   message has encoded_bytes(n) bytes; returns how many are used, from its beginning
///     decode(message, values)   writes all values, or throws DecodeError and writes none
///
/// | facts  | `name`; `exact`: lengths do not depend on data; `lossless`: decode gives what was encoded, bit for bit;   |
/// |        | `linear`: messages of sums are sums of messages, so they may be added undecoded                           |
/// | laws   | a pure function of values and members, whatever the machine and its threads; a message that is cut,       |
/// |        | damaged or of something else is refused                                                                   |
/// | size   | encoded_bytes(n) is at most most_message_bytes(n), whatever the members are, and so are state(n) and what a |
/// |        | decoder sets aside: that follows from n, never from what a message says. It never grows with the ratio of a |
/// |        | codec that has one (adjust.hpp), so that room for the least ratio is room for all                          |
/// | may have | `accumulate(message, values)`: adds what the message decodes to, all or nothing;                        |
/// |        | `encode_residual(values, message)`: as encode; values become what the message leaves out of them          |
/// | models | Bf16, Blockwise8, Chain, ChunkTopK, Dct, Dense, Fp8, NormalFloat4, RandomK, Sign, TopK, TwoBit, Uniform8       |
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

/// A codec whose messages depend on those before: the sender remembers state(n) numbers, the receiver received_state(n).
/// Both are 0 at first, and later what the codec wrote, bit for bit: nobody adds to them, scales them or rounds them. So a
/// number may stand for something else, as a count of messages does. The memory belongs to who calls: a step that is skipped leaves
/// it as it was, or where that cannot be makes it 0 on both ends; a training that goes on in another form (other ranks, another
/// codec) begins with 0 again. Besides, a codec is tried on numbers of its caller's before it is used, each time from 0.
///
///     encode(values, state, next, message)    next: the state after it; may be the memory of `state` or of `values`
///     decode(message, state, next, values)    next, values: all are written, or DecodeError is thrown and none is
///
/// | laws   | a pure function of values, state and members; the rest as codec                                           |
/// | models | ErrorFeedback, Ef21, Delta, PowerSgd                                                                      |
template <class C>
concept codec_with_memory =
    std::copyable<C> && requires(const C& format, std::int64_t n, std::span<const float> values,
                                 std::span<const float> state, std::span<float> next, std::span<float> decoded,
                                 std::span<std::byte> message, std::span<const std::byte> received) {
      { C::name } -> std::convertible_to<std::string_view>;
      { C::exact } -> std::convertible_to<bool>;
      { C::lossless } -> std::convertible_to<bool>;
      { C::linear } -> std::convertible_to<bool>;
      { format.encoded_bytes(n) } -> std::same_as<Bytes>;
      { format.state(n) } -> std::same_as<std::int64_t>;
      { format.received_state(n) } -> std::same_as<std::int64_t>;
      { format.encode(values, state, next, message) } -> std::same_as<Bytes>;
      { format.decode(received, state, next, decoded) } -> std::same_as<void>;
    };

template <class C>
concept any_codec = codec<C> || codec_with_memory<C>;

/// A codec whose messages decode by themselves: at most the sender has a memory.
template <class C>
concept decodes_alone = any_codec<C> && requires(const C& format, std::span<const std::byte> message, std::span<float> values) {
  { format.decode(message, values) } -> std::same_as<void>;
};

/// A codec that adds a message to numbers without decoding all of it: values[i] += decoded[i], but for the sign of a zero.
template <class C>
concept accumulating_codec =
    any_codec<C> && requires(const C& format, std::span<const std::byte> message, std::span<float> values) {
      { format.accumulate(message, values) } -> std::same_as<void>;
    };

/// The number of entries in the sender's memory, for messages of n numbers.
template <any_codec C>
[[nodiscard]] std::int64_t state_of(const C& format, std::int64_t n) {
  if constexpr (codec_with_memory<C>) {
    return format.state(n);
  } else {
    return 0;
  }
}

/// The number of entries in the receiver's memory, for messages of n numbers.
template <any_codec C>
[[nodiscard]] std::int64_t received_state_of(const C& format, std::int64_t n) {
  if constexpr (codec_with_memory<C>) {
    return format.received_state(n);
  } else {
    return 0;
  }
}

/// Throws OptionError unless `state` and `next` have the size of the sender's memory for these values.
template <any_codec C>
void check_memory(const C& format, std::span<const float> values, std::span<const float> state, std::span<float> next) {
  const auto wanted = static_cast<std::size_t>(state_of(format, static_cast<std::int64_t>(values.size())));
  if (state.size() == wanted && next.size() == wanted) return;
  throw OptionError("reef::codec: ", C::name, " of ", values.size(), " numbers has ", state.size(),
                    " of memory before, and ", next.size(), " after.\n  fix: ", wanted, " each, as state(n) says.");
}

/// Encodes with a codec with or without memory: `state` and `next` have state_of(format, n) numbers. A codec that takes
/// threads shares its work among them.
template <any_codec C>
Bytes encode(const C& format, std::span<const float> values, std::span<const float> state, std::span<float> next,
             std::span<std::byte> message, const Threads& threads = {}) {
  if constexpr (requires { format.encode(values, state, next, message, threads); }) {
    return format.encode(values, state, next, message, threads);
  } else if constexpr (codec_with_memory<C>) {
    return format.encode(values, state, next, message);
  } else if constexpr (requires { format.encode(values, message, threads); }) {
    return format.encode(values, message, threads);
  } else {
    return format.encode(values, message);
  }
}

/// Decodes with a codec with or without memory: `state` and `next` have received_state_of(format, n) numbers. A codec that
/// takes threads shares its work among them.
template <any_codec C>
void decode(const C& format, std::span<const std::byte> message, std::span<const float> state, std::span<float> next,
            std::span<float> values, const Threads& threads = {}) {
  if constexpr (requires { format.decode(message, state, next, values, threads); }) {
    format.decode(message, state, next, values, threads);
  } else if constexpr (codec_with_memory<C>) {
    format.decode(message, state, next, values);
  } else if constexpr (requires { format.decode(message, values, threads); }) {
    format.decode(message, values, threads);
  } else {
    format.decode(message, values);
  }
}

/// Adds the decoded message to `values`. Throws DecodeError, and `values` are unchanged. `scratch` has as many numbers as
/// `values`, or none where the codec is an accumulating_codec.
template <any_codec C>
void accumulate(const C& format, std::span<const std::byte> message, std::span<const float> state,
                std::span<float> next, std::span<float> values, std::span<float> scratch) {
  if constexpr (accumulating_codec<C>) {
    format.accumulate(message, values);
  } else {
    if (scratch.size() < values.size()) {
      throw OptionError("reef::codec::accumulate: ", values.size(), " numbers of ", C::name, " have scratch for ",
                        scratch.size(), ".\n  fix: as many; none only where an accumulating_codec is used.");
    }
    const std::span<float> decoded = scratch.first(values.size());
    decode(format, message, state, next, decoded);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += decoded[i];
  }
}

/// Adds the decoded message to `values`, of a codec whose receiver has no memory.
template <any_codec C>
void accumulate(const C& format, std::span<const std::byte> message, std::span<float> values,
                std::span<float> scratch) {
  accumulate(format, message, {}, {}, values, scratch);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
