#pragma once

#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// The zero-bubble orders, in which the weight halves of backwards fill bubbles, the idle times of a pipeline.
///
/// | h1 | with the memory of 1F1B                 |
/// | h2 | with about twice that memory, no bubble |
enum class ZeroBubbleKind { h1, h2 };

/// 1F1B whose backwards run in halves: a stage first sends the gradient of its inputs (time b), and computes that of
/// its weights (time w) where it would wait. f: the time of a forward; m: micro-batches; p: stages.
///
/// \code
/// using MyTrainer = Trainer<pipeline::ZeroBubble<>, optim::Zero1<optim::AdamW>>;
/// \endcode
///
/// | time    | h1: m (f + b + w) + (p - 1)(f + b - w) if w <= min(f, b), m >= p and links take no time;            |
/// |         | h2: 3 m f + (p - 1) f if f = b = w and m >= 2 p - 2                                                 |
/// | memory  | h1: p, h2: 2 p - 1 activations on the first stage, kept until the weight half has run; in addition  |
/// |         | the intermediate results between the halves, which 1F1B does not have                               |
/// | halves  | for operators that have them (graph::Signature::splits_backward); others run both in the first half |
/// | source  | Qi et al., arXiv 2401.10241                                                                         |
template <ZeroBubbleKind kind = ZeroBubbleKind::h1>
struct ZeroBubble : Scheduled<ZeroBubble<kind>> {
  static plan::PipelineOrder order(int stages, int micro_batches) {
    return kind == ZeroBubbleKind::h1 ? plan::zb_h1_order(stages, micro_batches)
                                      : plan::zb_h2_order(stages, micro_batches);
  }
};

/// The zero-bubble pipeline with V chunks (parts of the model) on each of p stages, chunk c on stage c mod p. In the
/// table m is the number of micro-batches, f the time of a chunk's forward, b and w the times of the two halves of its
/// backward.
///
/// \code
/// using MyTrainer = Trainer<pipeline::InterleavedZeroBubble<2>, optim::Ddp<optim::AdamW>>;
/// \endcode
///
/// | time   | m V (f + b + w) + (p - 1)(f + b - w), if w <= min(f, b) and p divides m |
/// | memory | p V activations of a chunk on the first stage                           |
template <int V = 2>
struct InterleavedZeroBubble : Scheduled<InterleavedZeroBubble<V>> {
  static_assert(V >= 1, "reef::pipeline::InterleavedZeroBubble: a stage has at least 1 chunk");

  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::interleaved_zb_order(stages, micro_batches, V);
  }
  static std::vector<int> stage_of_chunk(int stages, const ScheduledOptions& /*none*/) {
    return detail::looped(stages, V);
  }
};

static_assert(PipelinePolicy<ZeroBubble<>> && PipelinePolicy<InterleavedZeroBubble<>>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
