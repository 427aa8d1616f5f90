#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/comm/meter.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// Returns the P + 1 offsets that cut n elements into P shards, rank r owning [offsets[r], offsets[r+1]). The first n
/// mod P shards have one element more.
///
/// \code
/// const std::vector<std::int64_t> offsets = comm::even_offsets(10, 4);  // 0, 3, 6, 8, 10
/// \endcode
std::vector<std::int64_t> even_offsets(std::int64_t n, int ranks);

namespace detail {

/// Throws OptionError unless the offsets of shards start at 0, never fall, and end at n.
void check_offsets(std::string_view task, std::span<const std::int64_t> offsets, std::int64_t n);

/// Throws OptionError unless there are as many shards (parts of an array) as ranks that take part.
void check_ranks(std::string_view task, std::int64_t shards, int ranks);

/// Returns the number of elements in a piece of a message: as many as fit, at least one.
constexpr std::int64_t piece_elements(Bytes piece, Bytes element) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(piece / element));
}

/// Returns the messages and bytes of sending `elements` elements to one rank.
constexpr Cost shard_cost(std::int64_t elements, Bytes element, Bytes piece) {
  const auto count = static_cast<std::uint64_t>(elements);
  const auto per_piece = static_cast<std::uint64_t>(piece_elements(piece, element));
  const std::uint64_t messages = divide_up(count, per_piece);
  return {messages, count * element + messages * header_bytes, 0};
}

/// Returns the messages and bytes of a rank that sends each owner its shard, in a reduce-scatter; in a group `rank` is
/// the position.
Cost reduce_cost(int ranks, int rank, std::span<const std::int64_t> offsets, Bytes element,
                 Transport transport, Bytes piece);

/// Returns the messages and bytes of a rank that sends its shard to all others, in an all-gather; in a group `rank` is
/// the position.
Cost gather_cost(int ranks, int rank, std::span<const std::int64_t> offsets, Bytes element,
                 Transport transport, Bytes piece);

}  // namespace detail

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/shards.ipp>
#endif
