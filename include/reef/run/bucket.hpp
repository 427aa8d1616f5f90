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

/// The number of elements of a parameter whose squares are summed together; the last block of a parameter may be short.
/// A shard is a whole number of blocks, so the sums depend neither on the number of ranks nor on where a model is cut.
inline constexpr std::int64_t norm_block = 4096;

/// The parameters that are first used in one segment, which are reduced, updated and gathered at once.
struct Bucket {
  int segment = 0;
  std::int64_t begin = 0;  ///< first element in the flat parameter layout
  std::int64_t end = 0;
  std::vector<std::int64_t> parameters;  ///< offsets of the parameters from begin: 0 first, ascending
  std::vector<std::int64_t> shards;  ///< offsets of the shards from begin, one more than the group has members
  std::vector<std::int64_t> owners{};  ///< shards of the ranks that a process stands for; else as `shards`
  int stage = 0;                     ///< the stage that holds the bucket
  Group group{};                     ///< the ranks of that stage, which reduce the bucket with each other

  [[nodiscard]] std::int64_t size() const { return end - begin; }

  /// True if no other rank holds the bucket: nothing of it is sent.
  [[nodiscard]] bool alone() const { return group.size() == 1; }

  /// Returns the part of the bucket that a rank of the group owns: elements [shard_begin, shard_begin + shard_size).
  [[nodiscard]] std::int64_t shard_begin(int rank) const { return shards[position(rank)]; }
  [[nodiscard]] std::int64_t shard_size(int rank) const {
    return shards[position(rank) + 1] - shards[position(rank)];
  }

  /// Returns elements [first, last) of the bucket, parameter by parameter: [begin, end) of each, with the padding
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

/// Returns the number of norm blocks in a piece of a parameter that begins with a block.
constexpr std::int64_t norm_blocks(std::int64_t elements) {
  return (elements + norm_block - 1) / norm_block;
}

/// Returns the number of norm blocks in some pieces.
std::int64_t norm_blocks(std::span<const std::pair<std::int64_t, std::int64_t>> pieces);

/// Returns P + 1 offsets that give each of P ranks a share of n elements in whole norm blocks, which begin anew at each
/// of `parameters`: shares differ from n / P by at most a block.
///
/// \code
/// const std::vector<std::int64_t> offsets = run::shard_offsets(1'000'000, 4);
/// \endcode
std::vector<std::int64_t> shard_offsets(std::int64_t n, int ranks,
                                        std::span<const std::int64_t> parameters = {});

/// Returns P + 1 offsets that give each of P ranks whole parts of a bucket of n elements, balanced by their work.
///
///     loads[r] += work of rank r's         the most that a rank is then loaded with is the least possible
///
/// | parts | offsets at which parts begin, from 0 on, ascending: a matrix that stays whole, or a norm block          |
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
