#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/codec/concept.hpp>
#include <reef/codec/dense.hpp>
#include <reef/codec/detail/name.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec that sends the change of a tensor since the same samples were last sent between two stages: Ef21 with a
/// memory for each micro-batch of an epoch.
///
///     first time   message = values, unchanged            next = values
///     later        message = inner(values - state)        next = state + decoded; the value received
///
/// `next` has the same bits on both ends. A change that one message leaves out is part of the next change of these
/// samples.
///
/// \code
/// // given: std::span<const float> values, std::span<float> received
/// const codec::Delta<codec::Uniform8> format{{}, 4};  // the source repeats itself every four steps
/// const auto n = static_cast<std::int64_t>(values.size());
/// std::vector<float> at_sender(static_cast<std::size_t>(format.state(n))), at_receiver(at_sender);
/// std::vector<std::byte> message(format.encoded_bytes(n));
/// for (int epoch = 0; epoch < 2; ++epoch) {
///   const Bytes used = format.encode(values, at_sender, at_sender, message);
///   format.decode(std::span(message).first(used), at_receiver, at_receiver, received);
/// }
/// \endcode
///
/// | period | the number of steps after which the source repeats its micro-batches in the same order.              |
/// |        | compress::Channels keeps a memory for each micro-batch of a period, for each edge, on both ends      |
/// | state  | sender and receiver: n numbers each, and one that tells whether there was a message                  |
/// | wire   | the first time 32 bits a number, later a message of the inner codec: encoded_bytes is the larger of  |
/// |        | both                                                                                                 |
/// | without memory | with `state` and `next` empty, numbers are sent unchanged, as in a step that commits nothing |
/// | cost   | three passes, and n numbers of scratch at the sender                                                 |
/// | errors | OptionError, before anything is written, for a period below 1, or memory or room of another size     |
///
/// Source: Wang et al., AQ-SGD, arXiv 2206.01299, algorithm 1. Deviation: one memory per micro-batch, so that the
/// micro-batches must be the same in each epoch; the paper keeps one per sample.
template <codec C>
struct Delta {
  C inner{};
  std::int64_t period = 1;  ///< number of steps after which the training data repeat the same micro-batches

  static constexpr std::string_view name = detail::joined_name<detail::delta_name, C>;
  static constexpr bool exact = false;     ///< false: messages differ in length, as the first is longer than later ones
  static constexpr bool lossless = false;
  static constexpr bool linear = false;

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const {
    if (period < 1) {
      throw OptionError("reef::codec::Delta: the source is to repeat itself every ", period,
                        " steps.\n  fix: the steps of an epoch, at least 1.");
    }
    return (std::max)(Dense{}.encoded_bytes(n), inner.encoded_bytes(n));
  }
  [[nodiscard]] std::int64_t state(std::int64_t n) const { return n + 1; }
  [[nodiscard]] std::int64_t received_state(std::int64_t n) const { return n + 1; }

  Bytes encode(std::span<const float> values, std::span<const float> state, std::span<float> next,
               std::span<std::byte> message) const {
    detail::check_room(*this, values.size(), message);
    if (state.empty() && next.empty()) return Dense{}.encode(values, message);
    check_memory(*this, values, state, next);
    if (state.back() != 0) {
      const Bytes bytes = change().encode(values, state.first(values.size()), next.first(values.size()), message);
      next.back() = 1;
      return bytes;
    }
    const Bytes bytes = Dense{}.encode(values, message);
    remember(values, next);
    return bytes;
  }

  void decode(std::span<const std::byte> message, std::span<const float> state, std::span<float> next,
              std::span<float> values) const {
    if (state.empty() && next.empty()) return Dense{}.decode(message, values);
    check_memory(*this, values, state, next);
    if (state.back() != 0) {
      change().decode(message, state.first(values.size()), next.first(values.size()), values);
      next.back() = 1;
    } else {
      Dense{}.decode(message, values);
      remember(values, next);
    }
  }

private:
  [[nodiscard]] Ef21<C> change() const { return {inner}; }

  static void remember(std::span<const float> values, std::span<float> next) {
    for (std::size_t i = 0; i < values.size(); ++i) next[i] = values[i];
    next.back() = 1;
  }
};

static_assert(codec_with_memory<Delta<TopK>> && !decodes_alone<Delta<TopK>>);

/// Returns the codec's period: the number of steps after which the same samples come again; the codec has a memory for
/// each micro-batch of a period. Returns 0 for a codec without a period: its one memory, if there is one, serves all
/// messages.
template <any_codec C>
[[nodiscard]] std::int64_t period_of(const C& format) {
  if constexpr (requires { format.period; }) {
    return format.period;
  } else {
    return 0;
  }
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
