#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/codec/concept.hpp>
#include <reef/codec/detail/name.hpp>
#include <reef/codec/message.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

template <class C>
void check_room(const C& format, std::size_t n, std::span<std::byte> message) {  // before `next` is written
  const auto count = static_cast<std::int64_t>(n);
  static_cast<void>(begin_message(message, {CodecId{}, C::name, 0, count},
                                  format.encoded_bytes(count) - message_head_bytes));
}

/// Decodes a message of a codec whose receiver has no memory, with `threads` if the codec accepts them.
template <decodes_alone C>
void decode_alone(const C& format, std::span<const std::byte> message, std::span<float> values,
                  const Threads& threads) {
  if constexpr (requires { format.decode(message, values, threads); }) {
    format.decode(message, values, threads);
  } else {
    format.decode(message, values);
  }
}

}  // namespace detail

/// A codec that adds the error of each message to the values of the next: what the inner codec leaves out is not lost,
/// but sent later.
///
///     x = values + decay * state      the numbers to be sent
///     message = inner(x)
///     next = x - decoded              0 for numbers that are sent exactly
///
/// \code
/// // given: codec::Blockwise8 inner, std::span<const float> values
/// const codec::ErrorFeedback<codec::Blockwise8> format{inner};
/// const auto n = static_cast<std::int64_t>(values.size());
/// std::vector<float> memory(static_cast<std::size_t>(format.state(n)));  // kept from step to step
/// std::vector<std::byte> message(format.encoded_bytes(n));
/// message.resize(format.encode(values, memory, memory, message));
/// \endcode
///
/// | state    | sender: n numbers, in the units of the values, and those of the inner codec; receiver: none |
/// | laws     | decay = 1: decoded + next = values + state, bit for bit where numbers are sent as they are, |
/// |          | else within an ulp                                                                          |
/// | cost     | two passes, and n numbers of scratch where the codec has no encode_residual                 |
/// | errors   | OptionError, before anything is written, for memory or a message of the wrong size          |
/// | not finite | stays in the memory unless it is sent exactly: a caller who sees it skips the step        |
///
/// Source: Seide et al., Interspeech 2014; Karimireddy et al., arXiv 1901.09847. Decay: SparseLoCo, arXiv 2508.15706.
template <decodes_alone C>
struct ErrorFeedback {
  C inner{};
  /// The factor by which the codec's memory (the error so far) is scaled before it is added to the values.
  float decay = 1;

  static constexpr std::string_view name = detail::joined_name<detail::error_feedback_name, C>;
  static constexpr bool exact = C::exact;
  static constexpr bool lossless = C::lossless;
  static constexpr bool linear = C::linear;

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const { return inner.encoded_bytes(n); }
  [[nodiscard]] std::int64_t state(std::int64_t n) const { return n + state_of(inner, n); }
  [[nodiscard]] std::int64_t received_state(std::int64_t /*n*/) const { return 0; }

  Bytes encode(std::span<const float> values, std::span<const float> state, std::span<float> next,
               std::span<std::byte> message, const Threads& threads = {}) const {
    const std::size_t n = values.size();
    check_memory(*this, values, state, next);
    detail::check_room(inner, n, message);
    const std::span<float> residual = next.first(n);
    detail::each_number(threads, n, [&](std::size_t i) {
      const float kept = decay * state[i];
      residual[i] = values[i] + kept;
    });
    if constexpr (requires { inner.encode_residual(residual, message, threads); }) {
      return inner.encode_residual(residual, message, threads);
    } else if constexpr (requires { inner.encode_residual(residual, message); }) {
      return inner.encode_residual(residual, message);
    } else {
      const Bytes bytes = codec::encode(inner, residual, state.subspan(n), next.subspan(n), message, threads);
      std::vector<float> decoded(n);
      detail::decode_alone(inner, message.first(static_cast<std::size_t>(bytes)), decoded, threads);
      detail::each_number(threads, n, [&](std::size_t i) { residual[i] -= decoded[i]; });
      return bytes;
    }
  }

  void decode(std::span<const std::byte> message, std::span<const float> /*state*/,
              std::span<float> /*next*/, std::span<float> values, const Threads& threads = {}) const {
    detail::decode_alone(inner, message, values, threads);
  }
  void accumulate(std::span<const std::byte> message,
                  std::span<float> values) const requires accumulating_codec<C> {
    inner.accumulate(message, values);
  }
};

/// A codec that keeps equal estimates of the values on both ends, and sends the change from the estimate.
///
///     message = inner(values - state)
///     next = state + decoded          on both ends, bit for bit; the value received
///
/// \code
/// // given: std::span<const float> values, std::span<float> at_sender, std::span<float> at_receiver
/// // given: std::span<float> received
/// const codec::Ef21<codec::Uniform8> format;
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// message.resize(format.encode(values, at_sender, at_sender, message));
/// format.decode(message, at_receiver, at_receiver, received);
/// \endcode
///
/// | state  | sender and receiver: n numbers each                                                |
/// | cost   | three passes, and n numbers of scratch at the sender                               |
/// | errors | OptionError, before anything is written, for memory or a message of the wrong size |
///
/// Source: Richtarik et al., EF21, arXiv 2106.05203, algorithm 1. Delta is Ef21 with a memory for each micro-batch.
template <codec C>
struct Ef21 {
  C inner{};

  static constexpr std::string_view name = detail::joined_name<detail::ef21_name, C>;
  static constexpr bool exact = C::exact;
  static constexpr bool lossless = false;  ///< false: state + (values - state) is rounded
  static constexpr bool linear = false;

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const { return inner.encoded_bytes(n); }
  [[nodiscard]] std::int64_t state(std::int64_t n) const { return n; }
  [[nodiscard]] std::int64_t received_state(std::int64_t n) const { return n; }

  Bytes encode(std::span<const float> values, std::span<const float> state, std::span<float> next,
               std::span<std::byte> message, const Threads& threads = {}) const {
    check_memory(*this, values, state, next);
    detail::check_room(inner, values.size(), message);
    std::vector<float> change(values.size());
    detail::each_number(threads, change.size(), [&](std::size_t i) { change[i] = values[i] - state[i]; });
    const Bytes bytes = codec::encode(inner, change, {}, {}, message, threads);
    detail::decode_alone(inner, message.first(static_cast<std::size_t>(bytes)), change, threads);
    detail::each_number(threads, change.size(), [&](std::size_t i) { next[i] = state[i] + change[i]; });
    return bytes;
  }

  void decode(std::span<const std::byte> message, std::span<const float> state,
              std::span<float> next, std::span<float> values, const Threads& threads = {}) const {
    check_memory(*this, values, state, next);
    detail::decode_alone(inner, message, values, threads);
    detail::each_number(threads, values.size(), [&](std::size_t i) {
      const float received = state[i] + values[i];
      next[i] = received;
      values[i] = received;
    });
  }
};

}  // namespace codec
}  // namespace v0
}  // namespace reef
