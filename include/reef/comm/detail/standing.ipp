#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include <reef/comm/detail/standing.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE bool Standing::is_at(std::uint64_t operation) const {
  return std::any_of(awaited.begin(), awaited.end(),
                     [&](const AwaitedRank& one) { return one.operation == operation; });
}

inline constexpr std::size_t awaited_bytes = sizeof(std::uint64_t) + sizeof(std::uint32_t);

REEF_INLINE std::string encode(const Standing& standing) {
  const std::size_t count = (std::min)(standing.awaited.size(), Standing::most);
  const bool more = standing.more || count < standing.awaited.size();
  std::string bytes(1 + count * awaited_bytes, '\0');
  bytes[0] =
      static_cast<char>((standing.works ? 1 : 0) | (standing.waits ? 2 : 0) | (more ? 4 : 0));
  char* to = bytes.data() + 1;
  for (const AwaitedRank& one : std::span(standing.awaited).first(count)) {
    const auto rank = static_cast<std::uint32_t>(one.rank);
    std::memcpy(to, &one.operation, sizeof one.operation);
    std::memcpy(to + sizeof one.operation, &rank, sizeof rank);
    to += awaited_bytes;
  }
  return bytes;
}

REEF_INLINE Standing decode_standing(std::string_view bytes) {
  Standing standing;
  if (bytes.size() % awaited_bytes != 1) return standing;
  standing.works = (bytes[0] & 1) != 0;
  standing.waits = (bytes[0] & 2) != 0;
  standing.more = (bytes[0] & 4) != 0;
  for (const char* from = bytes.data() + 1; from != bytes.data() + bytes.size();
       from += awaited_bytes) {
    AwaitedRank one;
    std::uint32_t rank = 0;
    std::memcpy(&one.operation, from, sizeof one.operation);
    std::memcpy(&rank, from + sizeof one.operation, sizeof rank);
    one.rank = static_cast<int>(rank);
    standing.awaited.push_back(one);
  }
  return standing;
}

/// Calls visit(operation, rank) for each rank that a rank awaits; all of them where it does not list all.
template <class Visit>
void for_each_awaited(const std::vector<Standing>& ranks, int rank, const Visit& visit) {
  const Standing& standing = ranks[static_cast<std::size_t>(rank)];
  const auto count = static_cast<int>(ranks.size());
  for (const AwaitedRank& one : standing.awaited) {
    if (one.rank >= 0 && one.rank < count) visit(one.operation, one.rank);
  }
  if (!standing.more || standing.awaited.empty()) return;
  for (int other = 0; other < count; ++other) {
    if (other != rank) visit(standing.awaited.back().operation, other);
  }
}

/// Whether all ranks that `rank` awaits at an operation, and all that these await there, are at it.
inline bool is_under_way(const std::vector<Standing>& ranks, int rank, std::uint64_t operation) {
  std::vector<int> met{rank};
  bool all_there = ranks[static_cast<std::size_t>(rank)].is_at(operation);
  for (std::size_t i = 0; i < met.size() && all_there; ++i) {
    for_each_awaited(ranks, met[i], [&](std::uint64_t at, int other) {
      if (at != operation) return;
      all_there = all_there && ranks[static_cast<std::size_t>(other)].is_at(operation);
      if (std::find(met.begin(), met.end(), other) == met.end()) met.push_back(other);
    });
  }
  return all_there;
}

REEF_INLINE Hold hold_of(const std::vector<Standing>& ranks, int self, std::uint64_t operation) {
  Hold hold;
  hold.gets_on = is_under_way(ranks, self, operation);
  const auto reach = [&](int rank) {
    auto& reached = hold.reached;
    if (std::find(reached.begin(), reached.end(), rank) == reached.end()) reached.push_back(rank);
  };
  for_each_awaited(ranks, self, [&](std::uint64_t at, int rank) {
    if (at == operation) reach(rank);
  });
  hold.closed = !hold.reached.empty();
  for (std::size_t i = 0; i < hold.reached.size() && !hold.gets_on; ++i) {
    const int rank = hold.reached[i];
    const Standing& standing = ranks[static_cast<std::size_t>(rank)];
    hold.gets_on = standing.works;
    hold.closed = hold.closed && standing.waits && !standing.more && !standing.awaited.empty();
    for_each_awaited(ranks, rank, [&](std::uint64_t at, int other) {
      hold.gets_on = hold.gets_on || is_under_way(ranks, rank, at);
      reach(other);
    });
  }
  return hold;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
