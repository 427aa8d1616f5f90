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

}  // namespace reef::inline v0::run
