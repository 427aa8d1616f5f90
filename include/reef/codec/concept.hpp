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

/// A codec: it turns numbers into the bytes that are sent, and back. It is a plain value whose members are the
/// parameters of the format; sender and receiver hold equal codecs.
///
///     encoded_bytes(n)          the largest size of a message of n numbers; where `exact`, the size of each
///     encode(values, message)   message has encoded_bytes(n) bytes; returns how many are used, from its beginning
///     decode(message, values)   writes all values, or throws DecodeError and writes none
///
/// | facts  | `name`; `exact`: lengths do not depend on data; `lossless`: decode returns the numbers bit for bit;     |
/// |        | `linear`: messages of sums are sums of messages, so they may be added undecoded                         |
/// | laws   | encode depends on values and members alone, not on the machine or its threads; a message that is cut    |
/// |        | off, damaged or of another codec is refused                                                             |
/// | size   | encoded_bytes(n) is at most max_message_bytes(n) for all members, and so are state(n) and what a        |
/// |        | decoder allocates, which follows from n, never from a message's content. encoded_bytes(n) never grows   |
/// |        | with the ratio of a codec that has one (adjust.hpp), so that room for the least ratio is room for every |
/// |        | ratio                                                                                                   |
/// | may have | `accumulate(message, values)`: adds the decoded numbers to values, all or none;                       |
/// |        | `encode_residual(values, message)`: encodes, then subtracts the decoded numbers from values             |
/// | models | Bf16, Blockwise8, Chain, ChunkTopK, Dct, Dense, Fp8, NormalFloat4, RandomK, Sign, TopK, TwoBit,         |
/// |        | Uniform8                                                                                                |
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

/// A codec whose messages depend on earlier ones: the sender keeps a memory of state(n) numbers, the receiver one of
/// received_state(n). Both are 0 at first, and later exactly the bits that the codec wrote: callers do not add to them,
/// scale or round them, so an entry may encode something else, e.g. a count of messages. The caller owns the memory: a
/// skipped step leaves it unchanged, or, if it cannot, sets it to 0 on both ends; a training resumed in another form
/// (other ranks, another codec) starts from 0. A caller may also try the codec on other numbers before its use, each
/// time from 0.
///
///     encode(values, state, next, message)    next: the state after this message; may alias `state` or `values`
///     decode(message, state, next, values)    writes all of next and values, or throws DecodeError and writes none
///
/// | laws   | a function of values, state and members alone; otherwise as for codec |
/// | models | ErrorFeedback, Ef21, Delta, PowerSgd                                  |
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

/// A codec whose messages decode without earlier ones: the receiver has no memory.
template <class C>
concept decodes_alone = any_codec<C> &&
    requires(const C& format, std::span<const std::byte> message, std::span<float> values) {
  { format.decode(message, values) } -> std::same_as<void>;
};

/// A codec that adds a message to numbers without decoding all of it: values[i] += decoded[i], but for the sign of a
/// zero.
template <class C>
concept accumulating_codec =
    any_codec<C> && requires(const C& format, std::span<const std::byte> message, std::span<float> values) {
      { format.accumulate(message, values) } -> std::same_as<void>;
    };

/// Returns the number of entries in the sender's memory for messages of n numbers; 0 for a codec without memory.
template <any_codec C>
[[nodiscard]] std::int64_t state_of(const C& format, std::int64_t n) {
  if constexpr (codec_with_memory<C>) {
    return format.state(n);
  } else {
    return 0;
  }
}

/// Returns the number of entries in the receiver's memory for messages of n numbers; 0 for a codec without memory.
template <any_codec C>
[[nodiscard]] std::int64_t received_state_of(const C& format, std::int64_t n) {
  if constexpr (codec_with_memory<C>) {
    return format.received_state(n);
  } else {
    return 0;
  }
}

/// Throws OptionError unless `state` and `next` have the size of the codec's memory at the sender for these values.
template <any_codec C>
void check_memory(const C& format, std::span<const float> values, std::span<const float> state, std::span<float> next) {
  const auto wanted = static_cast<std::size_t>(state_of(format, static_cast<std::int64_t>(values.size())));
  if (state.size() == wanted && next.size() == wanted) return;
  throw OptionError("reef::codec: ", C::name, " of ", values.size(), " numbers has ", state.size(),
                    " of memory before, and ", next.size(), " after.\n  fix: ", wanted, " each, as state(n) says.");
}

/// Encodes `values` with a codec with or without memory: `state` and `next` have state_of(format, n) numbers. A codec
/// whose encode() accepts `threads` shares its work among them.
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

/// Decodes `message` with a codec with or without memory: `state` and `next` have received_state_of(format, n) numbers.
/// A codec whose decode() accepts `threads` shares its work among them.
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

/// Adds the decoded message to `values`. If it throws DecodeError, `values` are unchanged. `scratch` must have at least
/// values.size() numbers; it may be empty for an accumulating_codec.
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

/// Adds the decoded message to `values`, for a codec whose receiver has no memory. If it throws DecodeError, `values`
/// are unchanged. `scratch` must have at least values.size() numbers; it may be empty for an accumulating_codec.
template <any_codec C>
void accumulate(const C& format, std::span<const std::byte> message, std::span<float> values,
                std::span<float> scratch) {
  accumulate(format, message, {}, {}, values, scratch);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
