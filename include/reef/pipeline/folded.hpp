#pragma once

#include <vector>

#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// A pipeline folded into a V: stage r of p has the chunks (parts of the model) r and 2 p - 1 - r, so that stage 0 also
/// computes the loss, and all stages hold equally much. In the table m is the number of micro-batches, f the time of a
/// chunk's forward, and b and w the times of the two halves of its backward.
///
/// | ZbV       | time 6 m f + (p - 1) f if f = b = w and m >= 2 p - 1; 2 p activations of a chunk                |
/// | VHalf     | 2 floor((p + 2) / 2) activations: about half of 1F1B's memory, but more bubbles                 |
/// | VMin      | 2 floor((p + 4) / 3) activations: about a third of 1F1B's memory                                |
/// | DualPipeV | time 6 m f + (p - 1) f if m >= 2 p; 2 p + 1 activations. A forward and a backward that DualPipe |
/// |           | overlaps run one after the other                                                                |
/// | source    | Qi et al., arXiv 2405.15362; DeepSeek-AI, DualPipe, and Sea AI Lab's DualPipe cut in half       |
///
/// \code
/// using MyTrainer = Trainer<pipeline::ZbV, optim::Zero1<optim::AdamW>>;
/// MyTrainer::Options options;
/// options.topology = run::Topology(1, 4);  // of 8 chunks
/// options.micro_batches = {8};
/// \endcode
template <class Policy>
struct Folded : Scheduled<Policy> {
  static std::vector<int> stage_of_chunk(int stages, const ScheduledOptions& /*none*/) {
    return plan::zb_v_order(stages, 1).rank_of_chunk;
  }
};

struct ZbV : Folded<ZbV> {
  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::zb_v_order(stages, micro_batches);
  }
};

struct VHalf : Folded<VHalf> {
  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::v_half_order(stages, micro_batches);
  }
};

struct VMin : Folded<VMin> {
  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::v_min_order(stages, micro_batches);
  }
};

struct DualPipeV : Folded<DualPipeV> {
  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::dualpipe_v_order(stages, micro_batches);
  }
};

static_assert(PipelinePolicy<ZbV> && PipelinePolicy<VHalf> && PipelinePolicy<VMin> &&
              PipelinePolicy<DualPipeV>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
