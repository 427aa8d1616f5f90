#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <reef/codec/concept.hpp>
#include <reef/codec/detail/name.hpp>
#include <reef/codec/detail/selected.hpp>
#include <reef/codec/message.hpp>
#include <reef/codec/selecting.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec of two: the numbers that codec A selects are encoded by codec B: Chain<TopK, Uniform8>, Chain<RandomK,
/// Chain<TopK, Uniform8>>.
///
///     payload   message of B with the numbers that A selects | A's selection
///
/// \code
/// #include <reef/codec/chunk_top_k.hpp>
/// #include <reef/codec/two_bit.hpp>
/// // given: std::span<const float> values
/// const codec::Chain<codec::ChunkTopK, codec::TwoBit> format{{.chunk = 4096, .keep = 64}, {}};
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// message.resize(format.encode(values, message));
/// \endcode
///
/// | wire   | A's indices and B's numbers, and 32 bytes for B's head: ChunkTopK of 64 in 4096 with TwoBit takes 0.149 |
/// |        | bits a number, 215 times less than fp32                                                                 |
/// | blocks | a block of B consists of selected numbers only                                                          |
/// | not finite | TopK and ChunkTopK select NaN and infinity, B encodes them; with RandomK, all sent numbers are NaN  |
/// | errors | those of A and of B                                                                                     |
///
/// Source: SparseLoCo, arXiv 2508.15706; CocktailSGD, ICML 2023 (random, top-k, then fewer bits).
template <selecting_codec A, codec B>
struct Chain {
  A selection{};
  B numbers{};

  static constexpr CodecId id = CodecId::chain;
  static constexpr std::string_view name = detail::joined_name<detail::chain_name, A, B>;
  static constexpr bool exact = A::exact && B::exact;
  static constexpr bool lossless = false;
  static constexpr bool linear = A::linear && B::linear;

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const {
    return message_head_bytes + numbers.encoded_bytes(selection.kept(n)) + selection.selection_bytes(n);
  }

  Bytes encode(std::span<const float> values, std::span<std::byte> message, const Threads& threads = {}) const {
    return write(values, message, threads, [](const auto&...) {});
  }

  /// Encodes `values` and subtracts from them the numbers that the message decodes to (concept.hpp). Only the values
  /// that are sent change.
  Bytes encode_residual(std::span<float> values, std::span<std::byte> message, const Threads& threads = {}) const {
    return write(values, message, threads,
                 [&](const std::vector<std::uint32_t>& indices, std::span<const std::byte> of_numbers) {
                   const float scale = detail::scale_of(selection, static_cast<std::int64_t>(values.size()));
                   std::vector<float> decoded(indices.size());
                   numbers.decode(of_numbers, decoded);
                   for (std::size_t i = 0; i < indices.size(); ++i) values[indices[i]] -= decoded[i] * scale;
                 });
  }

  void decode(std::span<const std::byte> message, std::span<float> values) const {
    const Opened opened = open(message, static_cast<std::int64_t>(values.size()));
    std::fill(values.begin(), values.end(), 0.0F);
    for (std::size_t i = 0; i < opened.indices.size(); ++i) values[opened.indices[i]] = opened.numbers[i];
  }
  void accumulate(std::span<const std::byte> message, std::span<float> values) const {
    const Opened opened = open(message, static_cast<std::int64_t>(values.size()));
    for (std::size_t i = 0; i < opened.indices.size(); ++i) values[opened.indices[i]] += opened.numbers[i];
  }
  /// Returns the head (format, parameters, count) of a message of n numbers; the message of B inside has its own head.
  [[nodiscard]] MessageHead head(std::int64_t n) const {
    return {id, name, Hash().add(A::id).add(selection.parameter(n)).value(), n};
  }

private:
  struct Opened {
    std::vector<std::uint32_t> indices;
    std::vector<float> numbers;
  };

  /// Writes the message of both codecs, then calls sent(indices, message of B).
  template <class Sent>
  Bytes write(std::span<const float> values, std::span<std::byte> message, const Threads& threads,
              const Sent& sent) const {
    const auto n = static_cast<std::int64_t>(values.size());
    const MessageHead own = head(n);
    const std::span<std::byte> payload = begin_message(message, own, encoded_bytes(n) - message_head_bytes);
    const std::vector<std::uint32_t> indices = detail::select_with(selection, values, threads);
    std::vector<float> kept;
    kept.reserve(indices.size());
    const bool broken = detail::hides<A>(values);
    for (const std::uint32_t index : indices) {
      kept.push_back(broken ? std::numeric_limits<float>::quiet_NaN() : values[index]);
    }
    const auto bytes = static_cast<std::size_t>(numbers.encode(kept, payload));
    const Bytes of_selection = selection.write_selection(indices, n, payload.subspan(bytes));
    const Bytes all = seal_message(message, own, bytes + of_selection);
    sent(indices, payload.first(bytes));
    return all;
  }

  [[nodiscard]] Opened open(std::span<const std::byte> message, std::int64_t n) const {
    const auto payload = open_message(message, head(n), message_head_bytes, encoded_bytes(n) - message_head_bytes);
    const auto bytes = static_cast<std::size_t>(message_bytes(payload, name));
    Opened opened;
    opened.numbers.resize(static_cast<std::size_t>(selection.kept(n)));
    numbers.decode(payload.first(bytes), opened.numbers);
    opened.indices = detail::selection_of(selection, payload.subspan(bytes), n);
    if constexpr (detail::rescaling<A>) {
      const float scale = selection.scale(n);
      for (float& number : opened.numbers) number *= scale;
    }
    return opened;
  }
};

template <class A, class B>
Chain(A, B) -> Chain<A, B>;

}  // namespace codec
}  // namespace v0
}  // namespace reef
