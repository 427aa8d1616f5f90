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

/// The number of elements of a norm block: consecutive elements of a parameter whose squares are summed together. The
/// last block may be shorter. A shard has whole blocks, so the sums depend neither on the number of ranks nor on cuts.
inline constexpr std::int64_t norm_block = 4096;

/// A bucket: the parameters whose first use is in one segment (consecutive operators) of the model. They are reduced,
/// updated and gathered together.
struct Bucket {
  int segment = 0;
  std::int64_t begin = 0;  ///< first element in the flat vector of all parameters
  std::int64_t end = 0;
  std::vector<std::int64_t> parameters;  ///< offsets of the bucket's parameters from begin: 0 first, ascending
  /// Offsets from begin at which each rank's shard starts, by position of the rank in the group; then size().
  std::vector<std::int64_t> shards;
  /// Shards of the ranks that one process stands for, if it runs alone; otherwise equal to `shards`.
  std::vector<std::int64_t> owners{};
  int stage = 0;  ///< the pipeline stage that holds the bucket
  Group group{};  ///< the ranks of that stage, which reduce the bucket with each other

  [[nodiscard]] std::int64_t size() const { return end - begin; }

  /// Returns true if no other rank holds the bucket, so that no message is needed for it.
  [[nodiscard]] bool alone() const { return group.size() == 1; }

  /// Returns the first element of the shard that a rank of the group owns: elements [shard_begin, shard_begin +
  /// shard_size).
  [[nodiscard]] std::int64_t shard_begin(int rank) const { return shards[position(rank)]; }
  [[nodiscard]] std::int64_t shard_size(int rank) const {
    return shards[position(rank) + 1] - shards[position(rank)];
  }

  /// Returns the elements [first, last) of the bucket as ranges [begin, end), one for each parameter in them, with the
  /// padding behind the parameter.
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

/// Returns the number of norm blocks (norm_block elements whose squares are summed together) in a range of a parameter
/// that begins with a block.
constexpr std::int64_t norm_blocks(std::int64_t elements) {
  return (elements + norm_block - 1) / norm_block;
}

/// Returns the number of norm blocks (norm_block elements whose squares are summed together) in ranges of parameters.
std::int64_t norm_blocks(std::span<const std::pair<std::int64_t, std::int64_t>> pieces);

/// Returns P + 1 offsets that divide n elements among P ranks in whole norm blocks (norm_block elements): shares differ
/// from n / P by at most a block. `parameters` are the offsets at which parameters start, and with each of them a new
/// block.
///
/// \code
/// const std::vector<std::int64_t> offsets = run::shard_offsets(1'000'000, 4);
/// \endcode
std::vector<std::int64_t> shard_offsets(std::int64_t n, int ranks,
                                        std::span<const std::int64_t> parameters = {});

/// Returns P + 1 offsets that give each of P ranks whole parts of a bucket (parameters of n elements together),
/// balanced by the parts' work.
///
///     loads[r] += work of the parts of rank r         so that the largest of `loads` is the least possible
///
/// | parts | the offsets at which parts start, ascending from 0; a part is a whole matrix or a norm block        |
/// | order | parts keep their order, so a rank may get none; with the same largest load, each rank's share is as |
/// |       | near as possible to an equal part of the remaining work                                             |
/// | loads | the work that each rank has from the buckets before, which this bucket evens out                    |
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
