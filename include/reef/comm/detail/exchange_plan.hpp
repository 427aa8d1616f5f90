#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// detail::fold with the type erased: what an exchange knows of its elements.
using Fold = void (*)(void* out, std::span<const void* const> sources, std::int64_t count);

/// What a collective does, for either transport. All places are bytes from the front of the whole
/// array; a buffer that holds only a shard says at which of them it begins.
struct ExchangePlan {
  std::vector<std::int64_t> offsets;  ///< (P + 1)
  const std::byte* input = nullptr;   ///< all shards to reduce, the own one to gather
  std::byte* output = nullptr;        ///< the own shard, all of them to gather
  Bytes input_begin = 0;
  Bytes output_begin = 0;
  bool reduce = false;  ///< owners fold everyone's chunks
  bool gather = false;  ///< owners give their shard to all
  Bytes element = 0;    ///< of the input, and so on the wire
  Fold fold = nullptr;
  Bytes widening = 1;  ///< how many times longer an element of a folded output is
  std::function<void(std::int64_t, std::int64_t)> on_folded =
      {};  ///< (begin, end) in the own shard

  [[nodiscard]] const std::byte* input_at(Bytes place) const {
    return input + (place - input_begin);
  }
  [[nodiscard]] std::byte* output_at(Bytes place) const {
    return output + (place * widening - output_begin);
  }
  [[nodiscard]] int ranks() const { return static_cast<int>(offsets.size()) - 1; }
  [[nodiscard]] Bytes begin(int shard) const {
    return static_cast<Bytes>(offsets[static_cast<std::size_t>(shard)]) * element;
  }
  [[nodiscard]] std::int64_t length(int shard) const;
};

/// A plan cut into pieces of a number of elements.
struct Pieces {
  const ExchangePlan* plan = nullptr;
  std::int64_t elements = 1;

  [[nodiscard]] std::int64_t of(int shard) const {
    return (plan->length(shard) + elements - 1) / elements;
  }
  /// Of the longest shard.
  [[nodiscard]] std::int64_t most() const;
  [[nodiscard]] std::int64_t count(int shard, std::int64_t piece) const {
    return std::clamp<std::int64_t>(plan->length(shard) - piece * elements, 0, elements);
  }
  [[nodiscard]] Bytes bytes(int shard, std::int64_t piece) const {
    return static_cast<Bytes>(count(shard, piece)) * plan->element;
  }
  /// Bytes from the front of the whole array to that piece.
  [[nodiscard]] Bytes at(int shard, std::int64_t piece) const;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/exchange_plan.ipp>
#endif
