#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/group.hpp>

namespace reef::inline v0::run {

/// The elements of a parameter whose squares are summed together; its last block may be short. A shard is
/// a whole number of blocks, so the sums depend neither on the number of ranks nor on where a model is cut.
inline constexpr std::int64_t norm_block = 4096;

/// The parameters that are first used in one segment: what is reduced, updated and gathered at once.
struct Bucket {
  int segment = 0;
  std::int64_t begin = 0;  ///< elements of the flat parameter layout
  std::int64_t end = 0;
  std::vector<std::int64_t> parameters;  ///< where they begin, from begin on: 0 first, ascending
  std::vector<std::int64_t> shards;  ///< offsets from begin, one more than the group has members
  std::vector<std::int64_t> owners{};  ///< the same; where a process stands for several ranks, those that they would have
  int stage = 0;                     ///< which holds it
  Group group{};                     ///< the ranks of that stage: who reduces it with whom

  [[nodiscard]] std::int64_t size() const { return end - begin; }

  /// No other rank holds it: nothing of it is sent.
  [[nodiscard]] bool alone() const { return group.size() == 1; }

  /// The part of it that a rank of the group owns: elements [shard_begin, shard_begin + shard_size).
  [[nodiscard]] std::int64_t shard_begin(int rank) const { return shards[position(rank)]; }
  [[nodiscard]] std::int64_t shard_size(int rank) const {
    return shards[position(rank) + 1] - shards[position(rank)];
  }

  /// Elements [first, last) of the bucket, parameter by parameter: [begin, end) of each, with the padding
  /// behind it.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> pieces(std::int64_t first,
                                                                          std::int64_t last) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> result;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::int64_t next = p + 1 < parameters.size() ? parameters[p + 1] : size();
      const std::int64_t from = std::max(first, parameters[p]);
      const std::int64_t to = std::min(last, next);
      if (from < to) result.emplace_back(from, to);
    }
    return result;
  }
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> pieces_of(int rank) const {
    return pieces(shard_begin(rank), shard_begin(rank) + shard_size(rank));
  }

private:
  [[nodiscard]] std::size_t position(int rank) const {
    return static_cast<std::size_t>(group.position_of(rank));
  }
};

/// The blocks of a piece of a parameter that begins with one.
constexpr std::int64_t norm_blocks(std::int64_t elements) {
  return (elements + norm_block - 1) / norm_block;
}

/// The blocks of some pieces.
inline std::int64_t norm_blocks(std::span<const std::pair<std::int64_t, std::int64_t>> pieces) {
  std::int64_t blocks = 0;
  for (const auto& [begin, end] : pieces) blocks += norm_blocks(end - begin);
  return blocks;
}

/// P + 1 offsets that give each of P ranks a share of n elements in whole blocks, which begin anew at each
/// of `parameters`: shares differ from n / P by at most a block.
///
/// \code
/// const std::vector<std::int64_t> offsets = run::shard_offsets(1'000'000, 4);
/// \endcode
inline std::vector<std::int64_t> shard_offsets(std::int64_t n, int ranks,
                                               std::span<const std::int64_t> parameters = {}) {
  std::vector<std::int64_t> offsets;
  for (int r = 0; r <= ranks; ++r) {
    const std::int64_t share = n / ranks * r + n % ranks * r / ranks;
    const auto behind = std::upper_bound(parameters.begin(), parameters.end(), share);
    const std::int64_t begin = behind == parameters.begin() ? 0 : *(behind - 1);
    const std::int64_t below = begin + (share - begin) / norm_block * norm_block;
    const std::int64_t above =
        std::min(below + norm_block, behind == parameters.end() ? n : *behind);
    offsets.push_back(share - below < above - share ? below : above);
  }
  offsets.back() = n;
  return offsets;
}

/// P + 1 offsets that give each of P ranks whole parts of a bucket of n elements, by their work.
///
///     loads[r] += work of rank r's         the most that a rank is then loaded with is the least possible
///
/// | parts | where they begin, from 0 on, ascending: a matrix that stays whole, or a norm block                     |
/// | order | parts stay in theirs, so a rank may have none; among the shares of one maximum each is as near as may  |
/// |       | be to an equal part of what is left                                                                    |
/// | loads | of the ranks, from the buckets before: what one has made uneven the next evens out                      |
///
/// \code
/// std::vector<std::int64_t> loads(2);
/// const std::vector<std::int64_t> begins{0, 64, 128}, work{5, 3, 1};
/// const std::vector<std::int64_t> offsets = run::whole_shard_offsets(192, begins, work, loads);  // 0, 64, 192
/// \endcode
inline std::vector<std::int64_t> whole_shard_offsets(std::int64_t n, std::span<const std::int64_t> parts,
                                                     std::span<const std::int64_t> work,
                                                     std::span<std::int64_t> loads) {
  const std::size_t count = parts.size();
  const std::size_t ranks = loads.size();
  // The first part that ranks from the back need not take, if none takes beyond the bound: by the first of them.
  const auto least_begins = [&](std::int64_t bound) {
    std::vector<std::size_t> begins(ranks + 1, count);
    for (std::size_t r = ranks; r-- > 0;) {
      std::size_t begin = begins[r + 1];
      for (std::int64_t load = loads[r]; begin > 0 && load + work[begin - 1] <= bound;) load += work[--begin];
      begins[r] = begin;
    }
    return begins;
  };
  std::int64_t below = -1;
  std::int64_t bound = *std::max_element(loads.begin(), loads.end());
  for (const std::int64_t one : work) bound += one;
  while (bound - below > 1) {
    const std::int64_t middle = below + (bound - below) / 2;
    (least_begins(middle).front() == 0 ? bound : below) = middle;
  }
  const std::vector<std::size_t> begins = least_begins(bound);
  std::int64_t left = 0;  // of what is not dealt out, with the loads of those who may take it
  for (const std::int64_t one : work) left += one;
  for (const std::int64_t load : loads) left += load;
  std::vector<std::int64_t> offsets{0};
  std::size_t next = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::int64_t fair = left / static_cast<std::int64_t>(ranks - r);
    const auto nearer = [&](std::int64_t one) { return loads[r] + one / 2 < fair && loads[r] + one <= bound; };
    while (next < count && (next < begins[r + 1] || nearer(work[next]))) loads[r] += work[next++];
    left -= loads[r];
    offsets.push_back(next < count ? parts[next] : n);
  }
  offsets.back() = n;
  return offsets;
}

}  // namespace reef::inline v0::run
