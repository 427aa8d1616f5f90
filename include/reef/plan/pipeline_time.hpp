#pragma once

#include <cstdint>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The time of a pipeline of stages, from the times for which each computes and receives for a micro-batch.
///
///     latency   T_FP   = sum over stages p of  C_p + R_p                                    (Eq. 2)
///     pipelined T_pipe = T_FP + (n_b - 1) max over p of  max(C_p, R_p)                      (Eq. 3)
///     rate      phi    = n_b B / T_pipe,  B samples in a micro-batch                        (Eq. 4)
///
/// Eq. 3 is the makespan of a flow shop of links and devices: a stage receives one micro-batch while it computes
/// another. If a device cannot do both at once, its stage computes for C_p + R_p, and receives for no time.
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 3.5.
struct PipelineTime {
  Seconds compute = 0;     ///< the compute time of one micro-batch, in all stages
  Seconds receive = 0;     ///< the receive time of one micro-batch, in all stages
  Seconds bottleneck = 0;  ///< the longest time for which a stage computes or receives
  Seconds latency = 0;     ///< the time of one micro-batch
  Seconds pipelined = 0;   ///< the time of all micro-batches
  double rate = 0;         ///< samples per second
};

/// Computes Eq. 2 to 4. Throws OptionError, naming the stage, unless there are as many times of both kinds, each from 0
/// to 1e30 s (the longest that the slowest device of a PipelineProblem can take), and at least one micro-batch of more
/// than no sample.
///
/// \code
/// const plan::PipelineTime time = plan::pipeline_time({0.10, 0.12}, {0, 0.05}, 8);
/// \endcode
PipelineTime pipeline_time(const std::vector<Seconds>& compute, const std::vector<Seconds>& receive,
                           std::int64_t micro_batches, double samples = 1);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_time.ipp>
#endif
