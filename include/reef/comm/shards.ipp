#pragma once

#include <cstddef>
#include <string>

#include <reef/comm/shards.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE std::vector<std::int64_t> even_offsets(std::int64_t n, int ranks) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(ranks) + 1, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t size = n / ranks + (rank < n % ranks ? 1 : 0);
    offsets[static_cast<std::size_t>(rank) + 1] = offsets[static_cast<std::size_t>(rank)] + size;
  }
  return offsets;
}

namespace detail {

REEF_INLINE void check_offsets(std::string_view task, std::span<const std::int64_t> offsets,
                               std::int64_t n) {
  const bool ascending = std::is_sorted(offsets.begin(), offsets.end());
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() != n || !ascending) {
    throw OptionError("reef::comm: the shard offsets of '", task,
                      "' must be P + 1 numbers that start at 0, never fall, and end at n = ", n,
                      ".");
  }
}

REEF_INLINE void check_ranks(std::string_view task, std::int64_t shards, int ranks) {
  if (shards == ranks) return;
  throw OptionError("reef::comm: '", task, "' has shards for ", shards, " ranks, but there are ",
                    ranks, ".\n  fix: P + 1 offsets, P being the ranks that take part.");
}

REEF_INLINE Cost reduce_cost(int ranks, int rank, std::span<const std::int64_t> offsets,
                             Bytes element, Transport transport, Bytes piece) {
  Cost cost;
  for (int owner = 0; owner < ranks; ++owner) {
    if (owner == rank) continue;
    const auto at = static_cast<std::size_t>(owner);
    const std::int64_t length = offsets[at + 1] - offsets[at];
    if (transport == Transport::window) {
      cost.window_bytes += static_cast<Bytes>(length) * element;
    } else {
      cost = cost + shard_cost(length, element, piece);
    }
  }
  return cost;
}

REEF_INLINE Cost gather_cost(int ranks, int rank, std::span<const std::int64_t> offsets,
                             Bytes element, Transport transport, Bytes piece) {
  const auto at = static_cast<std::size_t>(rank);
  const std::int64_t length = offsets[at + 1] - offsets[at];
  if (ranks == 1) return {};
  if (transport == Transport::window) return {0, 0, static_cast<Bytes>(length) * element};
  const Cost one = shard_cost(length, element, piece);
  const auto peers = static_cast<std::uint64_t>(ranks - 1);
  return {one.messages * peers, one.bytes * peers, 0};
}

}  // namespace detail

}  // namespace comm
}  // namespace v0
}  // namespace reef
