#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// What a rank waits for: another rank, at an operation.
struct AwaitedRank {
  std::uint64_t operation = 0;  ///< which use of which one, alike on all ranks that take part
  int rank = 0;

  friend bool operator==(const AwaitedRank&, const AwaitedRank&) = default;
};

/// What a rank is at, as its signs of life tell the others.
struct Standing {
  static constexpr std::size_t most = 32;  ///< that are listed

  bool works =
      false;  ///< it computes, or messages of it are on emulated links: it gets on by itself
  bool waits = false;  ///< a thread of it waits; else its program may be at anything
  bool more = false;   ///< it awaits ranks beyond those listed, any of them
  std::vector<AwaitedRank> awaited{};

  [[nodiscard]] bool is_at(std::uint64_t operation) const;

  friend bool operator==(const Standing&, const Standing&) = default;
};

/// As bytes, of which a sign of life carries `most` at most, and back: what is no such text says nothing.
std::string encode(const Standing& standing);
Standing decode_standing(std::string_view bytes);

/// What a task that does not move is held up by.
struct Hold {
  bool gets_on = false;  ///< somebody works, or all who are needed are there: it is late, not lost
  bool closed = false;   ///< whoever is waited for waits in turn for one of them
  std::vector<int>
      reached{};  ///< whom it waits for, and whom these wait for, in the order in which they are met
};

/// Follows who waits for whom, from rank `self` at one of its operations, through the standings of all ranks.
///
/// | gets_on | one of those reached works, or an operation that one of them is at has all ranks that it awaits: it |
/// |         | moves                                                                                               |
/// | closed  | none of them gets on, and each waits for what it lists: nothing is left that could change this      |
Hold hold_of(const std::vector<Standing>& ranks, int self, std::uint64_t operation);

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/standing.ipp>
#endif
