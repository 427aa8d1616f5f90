#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/fragment.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE std::vector<FragmentPiece> fragment_pieces(const StepPlan& plan, int rank) {
  const std::int64_t n = plan.layout.trained_elements;
  const std::vector<std::int64_t> bounds = shard_offsets(n, plan.outer_schedule.fragments);
  std::vector<FragmentPiece> pieces;
  for (std::size_t f = 0; f + 1 < bounds.size(); ++f) {
    for (const std::size_t b : plan.buckets_of(plan.topology.stage_of(rank))) {
      const Bucket& bucket = plan.buckets[b];
      FragmentPiece piece;
      piece.fragment = static_cast<int>(f);
      piece.bucket = b;
      piece.begin = (std::max)(bounds[f], bucket.begin) - bucket.begin;
      piece.end = (std::min)(bounds[f + 1], bucket.end) - bucket.begin;
      if (piece.begin >= piece.end) continue;
      for (const auto& [begin, end] : bucket.pieces(piece.begin, piece.end)) {
        piece.parameters.push_back(begin - piece.begin);
        const std::int64_t at = bucket.begin + begin;
        std::int64_t last = at;  // of the numbers of the parameter that `at` lies in
        for (std::size_t p = 0; p < plan.layout.parameters.size(); ++p) {
          const std::int64_t first = plan.layout.parameters[p];
          if (plan.bucket_of_parameter[p] != static_cast<int>(b) || first > at) continue;
          last = first + plan.dag->parameters[p].spec.shape.size();
        }
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

}  // namespace run
}  // namespace v0
}  // namespace reef
