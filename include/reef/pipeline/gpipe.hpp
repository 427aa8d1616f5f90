#pragma once

#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// A pipeline in which every stage runs all forwards, then all backwards, both in ascending order of micro-batches.
///
/// \code
/// using MyTrainer = Trainer<pipeline::GPipe, optim::Zero1<optim::AdamW>>;
/// MyTrainer::Options options;
/// options.topology = run::Topology(2, 4);  // two replicas of four stages
/// options.micro_batches = {8};
/// \endcode
///
/// | time   | sum of all stages + (m - 1) (slowest forward or link + slowest backward or link), for m micro-batches: |
/// |        | the latency of links counts once a step                                                                |
/// | memory | activations of all m micro-batches on every stage                                                      |
/// | source | GPipe (Huang et al. 2019), which runs backwards in descending order                                    |
struct GPipe : Scheduled<GPipe> {
  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::gpipe_order(stages, micro_batches);
  }
};

static_assert(PipelinePolicy<GPipe>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
