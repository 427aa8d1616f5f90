#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/group.hpp>
#include <reef/core/text.hpp>
#include <reef/run/step_plan.hpp>

namespace reef::inline v0::run {

/// Ranks gather their encoded differences, and each takes outer steps whole; else they sum weights, and the owner of a shard
/// takes its step.
inline bool gathers_differences(const StepPlan& plan) {
  return plan.wire_of(schedule::Traffic::pseudo_gradient).encodes();
}

/// What of a fragment of the weights (OuterSchedule) lies in one bucket: elements [begin, end) of it.
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
  std::vector<std::int64_t> parameters{};  ///< offsets from begin of what is of one parameter each: 0 first, size() last
  std::vector<std::int64_t> filled{};      ///< by these: how many are the parameter's; behind them is padding, which stays 0
  std::vector<std::int64_t> shards{};      ///< offsets from begin, as of a Bucket
  Group group{};   ///< who share its outer step, shard by shard: the bucket's; where each takes it whole, the rank alone
  Group senders{};  ///< whose weights it averages: the bucket's

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

/// The pieces of all fragments that a rank's stage holds, fragment after fragment: equal shares of the flat parameter layout, in
/// whole norm blocks, wherever the buckets end.
inline std::vector<FragmentPiece> fragment_pieces(const StepPlan& plan, int rank) {
  const std::int64_t n = plan.layout.parameter_elements;
  const std::vector<std::int64_t> bounds = shard_offsets(n, plan.outer_schedule.fragments);
  std::vector<FragmentPiece> pieces;
  for (std::size_t f = 0; f + 1 < bounds.size(); ++f) {
    for (const std::size_t b : plan.buckets_of(plan.topology.stage_of(rank))) {
      const Bucket& bucket = plan.buckets[b];
      FragmentPiece piece;
      piece.fragment = static_cast<int>(f);
      piece.bucket = b;
      piece.begin = std::max(bounds[f], bucket.begin) - bucket.begin;
      piece.end = std::min(bounds[f + 1], bucket.end) - bucket.begin;
      if (piece.begin >= piece.end) continue;
      for (const auto& [begin, end] : bucket.pieces(piece.begin, piece.end)) {
        piece.parameters.push_back(begin - piece.begin);
        const std::int64_t at = bucket.begin + begin;
        const auto parameter = static_cast<std::size_t>(
            std::upper_bound(plan.layout.parameters.begin(), plan.layout.parameters.end(), at) - plan.layout.parameters.begin() - 1);
        const std::int64_t last = plan.layout.parameters[parameter] + plan.dag->parameters[parameter].spec.shape.size();
        piece.filled.push_back(std::clamp<std::int64_t>(last - at, 0, end - begin));
      }
      piece.parameters.push_back(piece.size());
      piece.senders = bucket.group;
      piece.group = gathers_differences(plan) ? Group{concat("rank ", rank), {rank}} : bucket.group;
      piece.shards = shard_offsets(piece.size(), piece.group.size());
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

}  // namespace reef::inline v0::run
