#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/group.hpp>
#include <reef/core/text.hpp>
#include <reef/run/step_plan.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Returns true if ranks all-gather encoded differences of weights, and each rank computes whole outer steps (of
/// DiLoCo); false if all sum weights, and the owner of a shard computes the outer step of that shard.
inline bool gathers_differences(const StepPlan& plan) {
  return plan.wire_of(schedule::Traffic::pseudo_gradient).encodes();
}

/// The part of a fragment of the weights that is in one bucket: elements [begin, end) of the bucket. A fragment is what
/// one outer step of DiLoCo averages (OuterSchedule).
///
/// \code
/// // given: const run::StepPlan& plan, int rank
/// std::int64_t due_first = 0;
/// for (const run::FragmentPiece& piece : run::fragment_pieces(plan, rank)) {
///   if (piece.fragment == 0) due_first += piece.size();
/// }
/// \endcode
struct FragmentPiece {
  int fragment = 0;
  std::size_t bucket = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  /// Offsets from begin at which each parameter's part of the fragment starts; then size().
  std::vector<std::int64_t> parameters{};
  std::vector<std::int64_t> filled{};  ///< number of elements that each parameter's part has; padding behind stays 0
  std::vector<std::int64_t> shards{};  ///< offsets from begin at which each rank's shard starts, as Bucket::shards
  /// The ranks that share the fragment's outer step by shards; if each computes all of it, this rank alone.
  Group group{};
  Group senders{};  ///< the ranks whose weights the fragment averages: the group of the bucket

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  [[nodiscard]] std::int64_t shard_begin(int rank) const { return shards[position(rank)]; }
  [[nodiscard]] std::int64_t shard_size(int rank) const {
    return shards[position(rank) + 1] - shard_begin(rank);
  }
  [[nodiscard]] bool alone() const { return group.size() == 1; }

private:
  [[nodiscard]] std::size_t position(int rank) const {
    return static_cast<std::size_t>(group.position_of(rank));
  }
};

/// Returns the parts, in each bucket, of all fragments that a rank's stage holds, fragment after fragment. Fragments
/// (what an outer step of DiLoCo averages) are equal shares of the flat parameter vector, in whole norm blocks,
/// independent of the ends of buckets.
std::vector<FragmentPiece> fragment_pieces(const StepPlan& plan, int rank);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/fragment.ipp>
#endif
