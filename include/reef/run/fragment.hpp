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

/// True if ranks gather their encoded differences, and each rank takes outer steps whole; else ranks sum weights, and
/// the owner of a shard takes its step.
inline bool gathers_differences(const StepPlan& plan) {
  return plan.wire_of(schedule::Traffic::pseudo_gradient).encodes();
}

/// A part of a fragment of the weights (OuterSchedule) that lies in one bucket: elements [begin, end) of the bucket.
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
  std::vector<std::int64_t> parameters{};  ///< offsets from begin of the parts of one parameter each: 0 first, size() last
  std::vector<std::int64_t> filled{};      ///< by part: elements that are the parameter's; padding behind them stays 0
  std::vector<std::int64_t> shards{};      ///< offsets of shards from begin, as of a Bucket
  Group group{};   ///< ranks that share its outer step by shards; where each takes it whole, this rank alone
  Group senders{};  ///< ranks whose weights it averages: the bucket's

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

/// Returns the pieces of all fragments that a rank's stage holds, fragment after fragment: equal shares of the flat
/// parameter layout, in whole norm blocks, wherever the buckets end.
std::vector<FragmentPiece> fragment_pieces(const StepPlan& plan, int rank);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/fragment.ipp>
#endif
