#pragma once

#include <reef/pipeline/concept.hpp>
#include <reef/run/instructions.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// The pipeline without stages: every rank runs the whole model, one micro-batch after the other.
///
///     for each micro-batch j:  Forward(0, j) ... Forward(S-1, j)  Backward(S-1, j) ... Backward(0, j)
///
/// The default of a Trainer. Only the activations of one micro-batch are alive at a time.
///
/// \code
/// using MyTrainer = Trainer<pipeline::Single, optim::Ddp<optim::AdamW>>;  // as without Single
/// \endcode
struct Single {
  using policy_tag = PipelineTag;

  static void add(run::StepBuilder& builder) {
    int j = run::add_micro_batches(builder);
    const run::StepPlan& plan = builder.plan;
    const int segments = static_cast<int>(plan.segments.size());
    const auto [first, last] = plan.folds_of(builder.rank());
    for (int fold = first; fold < last; ++fold) {
      const int count = builder.micro_batches_of(fold);
      for (int k = 0; k < count; ++k, ++j) {
        for (int s = 0; s < segments; ++s) run::add_forward(builder, s, j);
        if (!builder.trains()) continue;
        for (int s = segments; s-- > 0;) run::add_backward(builder, s, j, fold - first, k == 0);
      }
      if (builder.trains()) run::add_folds(builder, fold - first);
    }
  }
};

static_assert(PipelinePolicy<Single>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
