#pragma once

#include <cstdint>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The times of a pipeline in which stage p computes for C_p and receives for R_p for each of n_b micro-batches.
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
  Seconds compute = 0;     ///< the compute seconds of one micro-batch, summed over all stages
  Seconds receive = 0;     ///< the receive seconds of one micro-batch, summed over all stages
  Seconds bottleneck = 0;  ///< the longest time in seconds for which a stage computes or receives
  Seconds latency = 0;     ///< the seconds of one micro-batch through all stages (T_FP)
  Seconds pipelined = 0;   ///< the seconds of all micro-batches of a batch (T_pipe)
  double rate = 0;         ///< samples per second of a whole batch (phi)
};

/// Computes Eq. 2 to 4 from the compute and the receive time of each stage, for micro-batches of `samples`. Throws
/// OptionError, naming the stage, unless both lists have an entry for each stage, from 0 to 1e30 s (the most that the
/// slowest device of a PipelineProblem can take), and there is a micro-batch and `samples` > 0.
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
