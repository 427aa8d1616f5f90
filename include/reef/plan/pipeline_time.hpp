#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::plan {

/// What a pipeline of stages takes, by how long each computes and receives for a micro-batch.
///
///     latency   T_FP   = sum over stages p of  C_p + R_p                                    (Eq. 2)
///     pipelined T_pipe = T_FP + (n_b - 1) max over p of  max(C_p, R_p)                      (Eq. 3)
///     rate      phi    = n_b B / T_pipe,  B samples in a micro-batch                        (Eq. 4)
///
/// Eq. 3 is the makespan of a flow shop of links and devices: a stage receives one micro-batch while it computes
/// another. Where a device cannot, its stage computes for C_p + R_p, and receives for no time.
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 3.5.
struct PipelineTime {
  Seconds compute = 0;     ///< of one micro-batch, in all stages
  Seconds receive = 0;     ///< as that
  Seconds bottleneck = 0;  ///< the longest that a stage computes or receives
  Seconds latency = 0;     ///< of one micro-batch
  Seconds pipelined = 0;   ///< of all micro-batches
  double rate = 0;         ///< samples per second
};

/// Eq. 2 to 4. Throws OptionError, naming the stage, unless there are as many times of both kinds, each from 0 to
/// 1e30 s, as long as the slowest device can take that a PipelineProblem may have, and at least one micro-batch of more than no sample.
inline PipelineTime pipeline_time(const std::vector<Seconds>& compute,
                                  const std::vector<Seconds>& receive, std::int64_t micro_batches,
                                  double samples = 1) {
  if (compute.empty() || compute.size() != receive.size()) {
    throw OptionError("reef::plan::pipeline_time: ", compute.size(), " stages compute and ",
                      receive.size(), " receive.\n  fix: one of each for every stage.");
  }
  if (micro_batches < 1 || micro_batches > 1'000'000'000'000 || !within(samples, 1e-12, 1e12)) {
    throw OptionError("reef::plan::pipeline_time: ", micro_batches, " micro-batches of ", samples,
                      " samples.\n  fix: from 1 to 1e12 micro-batches, of more than no sample.");
  }
  PipelineTime time;
  for (std::size_t p = 0; p < compute.size(); ++p) {
    if (!within(compute[p], 0, 1e30) || !within(receive[p], 0, 1e30)) {
      throw OptionError("reef::plan::pipeline_time: stage ", p, " computes for ", compute[p],
                        " s and receives for ", receive[p], " s.\n  fix: from 0 to 1e30 s.");
    }
    time.compute += compute[p];
    time.receive += receive[p];
    time.latency += compute[p] + receive[p];
    time.bottleneck = std::max({time.bottleneck, compute[p], receive[p]});
  }
  time.pipelined = time.latency + static_cast<double>(micro_batches - 1) * time.bottleneck;
  if (time.pipelined > 0) time.rate = static_cast<double>(micro_batches) * samples / time.pipelined;
  return time;
}

}  // namespace reef::inline v0::plan
