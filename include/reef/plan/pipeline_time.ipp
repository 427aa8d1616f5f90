#pragma once

#include <algorithm>
#include <cstddef>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/pipeline_time.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE PipelineTime pipeline_time(const std::vector<Seconds>& compute,
                                       const std::vector<Seconds>& receive,
                                       std::int64_t micro_batches, double samples) {
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
    time.bottleneck = (std::max)({time.bottleneck, compute[p], receive[p]});
  }
  time.pipelined = time.latency + static_cast<double>(micro_batches - 1) * time.bottleneck;
  if (time.pipelined > 0) time.rate = static_cast<double>(micro_batches) * samples / time.pipelined;
  return time;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
