#pragma once

#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// The number of forwards that a stage runs ahead of its first backward, with p stages, on stage r.
///
/// | plain | p - 1 - r                                                  |
/// | eager | 2 (p - 1 - r): hides links of up to half of a stage's time |
enum class WarmUp { plain, eager };

/// A pipeline in which each stage runs some forwards first, then forwards and backwards by turns, then the backwards
/// left (1F1B).
///
/// \code
/// using Eager = pipeline::OneFOneB<pipeline::WarmUp::eager>;
/// using MyTrainer = Trainer<Eager, optim::Ddp<optim::AdamW>>;
/// \endcode
///
/// | time   | as GPipe if links take no time; else nearly two latencies more for each micro-batch |
/// | memory | activations of p - r micro-batches on stage r of p; eager: of 2 (p - 1 - r) + 1     |
/// | source | PipeDream-flush (Narayanan et al. 2021), DAPPLE (Fan et al. 2021)                   |
template <WarmUp warm_up = WarmUp::plain>
struct OneFOneB : Scheduled<OneFOneB<warm_up>> {
  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::one_f_one_b_order(stages, micro_batches, warm_up == WarmUp::eager);
  }
};

static_assert(PipelinePolicy<OneFOneB<>>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
