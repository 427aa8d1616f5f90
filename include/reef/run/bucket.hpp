#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/group.hpp>

namespace reef {
inline namespace v0 {
namespace run {

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
                                                                          std::int64_t last) const;
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
std::int64_t norm_blocks(std::span<const std::pair<std::int64_t, std::int64_t>> pieces);

/// P + 1 offsets that give each of P ranks a share of n elements in whole blocks, which begin anew at each
/// of `parameters`: shares differ from n / P by at most a block.
///
/// \code
/// const std::vector<std::int64_t> offsets = run::shard_offsets(1'000'000, 4);
/// \endcode
std::vector<std::int64_t> shard_offsets(std::int64_t n, int ranks,
                                        std::span<const std::int64_t> parameters = {});

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
std::vector<std::int64_t> whole_shard_offsets(std::int64_t n, std::span<const std::int64_t> parts,
                                              std::span<const std::int64_t> work,
                                              std::span<std::int64_t> loads);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/bucket.ipp>
#endif
