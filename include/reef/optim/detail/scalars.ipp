#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/core/inline.hpp>
#include <reef/optim/detail/scalars.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

REEF_INLINE ScalarLayout::ScalarLayout(const run::StepPlan& plan, bool trains) : folds_per_rank(plan.virtual_ranks) {
  std::int64_t end = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    end += counts * folds_per_rank;
    norms.emplace_back();
    if (trains) {
      for (const run::Bucket& bucket : plan.buckets) {
        norms.back().push_back(end);
        if (bucket.group.has(rank)) end += run::norm_blocks(bucket.pieces_of(rank));
      }
      norms.back().push_back(end);
    }
    ranks.push_back(end);
  }
}

REEF_INLINE void count_micro_batches(schedule::Instruction& scalars, const run::StepBuilder& builder) {
  const bool counts = builder.reports_loss();
  scalars.mode = static_cast<std::uint8_t>(counts ? Counted::micro_batches : Counted::nothing);
  if (counts) scalars.elements = {0, static_cast<std::int64_t>(builder.micro_batches.size())};
}

REEF_INLINE void read_losses(const ScalarsView<schedule::Instruction>& view,
                             const run::StepBuilder& builder, bool losses) {
  for (std::size_t j = 0; j < view.losses.size(); ++j) {
    const auto& counted = builder.micro_batches[j];
    view.losses[j] = {losses ? counted.loss : counted.loss_weight, 0};
    view.loss_weights[j] = {counted.loss_weight, 0};
  }
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
