#pragma once

#include <vector>

#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// 1F1B with V chunks (parts of the model) on each of p stages, chunk c on stage c mod p: filling and draining the
/// pipeline takes 1 / V of the time, and there are V times as many messages. In the table m is the number of
/// micro-batches.
///
/// \code
/// using MyTrainer = Trainer<pipeline::Interleaved<2>, optim::Ddp<optim::AdamW>>;
/// \endcode
///
/// | time   | (m V + p - 1) times of a chunk, if p divides m and links take no time |
/// | memory | (V + 1) p - 1 activations of a chunk on the first stage               |
/// | source | Narayanan et al., arXiv 2104.04473                                    |
template <int V = 2>
struct Interleaved : Scheduled<Interleaved<V>> {
  static_assert(V >= 1, "reef::pipeline::Interleaved: a stage has at least 1 chunk");

  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::interleaved_order(stages, micro_batches, V);
  }
  static std::vector<int> stage_of_chunk(int stages, const ScheduledOptions& /*none*/) {
    return detail::looped(stages, V);
  }
};

/// A breadth-first looped pipeline with V chunks (parts of the model) on each of p stages: all forwards of the m
/// micro-batches, chunk by chunk, then all backwards, last chunk first.
///
/// \code
/// using MyTrainer = Trainer<pipeline::LoopedBfs<2>, optim::Ddp<optim::AdamW>>;
/// \endcode
///
/// | time   | (m V + p - 1) times of a chunk, if m >= p; a latency of the links for each chunk, not each micro-batch |
/// | memory | m V activations of a chunk on every stage                                                              |
/// | source | Lamy-Poirier, arXiv 2211.05953, with backwards in ascending order                                      |
template <int V = 2>
struct LoopedBfs : Scheduled<LoopedBfs<V>> {
  static_assert(V >= 1, "reef::pipeline::LoopedBfs: a stage has at least 1 chunk");

  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::looped_bfs_order(stages, micro_batches, V);
  }
  static std::vector<int> stage_of_chunk(int stages, const ScheduledOptions& /*none*/) {
    return detail::looped(stages, V);
  }
};

static_assert(PipelinePolicy<Interleaved<>> && PipelinePolicy<LoopedBfs<>>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
