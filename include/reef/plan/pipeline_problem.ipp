#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/pipeline_problem.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE PipelineTime PipelineProblem::time(const std::vector<Stage>& stages,
                                               double samples) const {
  std::vector<Seconds> compute;
  std::vector<Seconds> receive;
  for (std::size_t p = 0; p < stages.size(); ++p) {
    const Stage& stage = stages[p];
    double sum = 0;
    for (int o = stage.first; o < stage.end; ++o) sum += flops[static_cast<std::size_t>(o)];
    compute.push_back(sum / speed[static_cast<std::size_t>(stage.device)]);
    receive.push_back(p == 0 ? 0
                             : links.time(stages[p - 1].device, stage.device,
                                          cut[static_cast<std::size_t>(stage.first)]));
  }
  return pipeline_time(compute, receive, micro_batches, samples);
}

REEF_INLINE bool PipelineProblem::fits(const std::vector<Stage>& stages) const {
  return std::all_of(stages.begin(), stages.end(), [&](const Stage& stage) {
    Bytes sum = 0;
    for (int o = stage.first; o < stage.end; ++o) sum += memory[static_cast<std::size_t>(o)];
    return sum <= capacity[static_cast<std::size_t>(stage.device)];
  });
}

REEF_INLINE void PipelineProblem::validate() const {
  const auto refuse = [](const auto&... pieces) {
    throw OptionError("reef::plan::PipelineProblem: ", pieces...);
  };
  const auto size = [&](const char* name, std::size_t is, std::size_t wanted, const char* of) {
    if (is != wanted)
      refuse(name, " has ", is, " numbers.\n  fix: ", wanted, ", one for each ", of, ".");
  };
  if (flops.empty() || operators() > max_pipeline_operators)
    refuse("flops has ", flops.size(), " numbers.\n  fix: 1 to ", max_pipeline_operators, ".");
  if (speed.empty() || speed.size() > max_pipeline_devices)
    refuse("speed has ", speed.size(), " numbers.\n  fix: 1 to ", max_pipeline_devices, ".");
  size("mem", memory.size(), flops.size(), "operator");
  size("cut", cut.size(), flops.size() + 1, "boundary, first and last included");
  size("cap", capacity.size(), speed.size(), "device");
  size("the network", static_cast<std::size_t>((std::max)(links.devices, 0)), speed.size(),
       "device");
  links.validate();
  const auto figures = [&](const char* name, const std::vector<double>& values, double least,
                           double most) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!within(values[i], least, most))
        refuse(name, "[", i, "] is ", values[i], ".\n  fix: from ", least, " to ", most, ".");
    }
  };
  figures("flops", flops, 0, 1e24);
  figures("cut", cut, 0, 1e18);
  figures("speed", speed, 1, 1e24);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i] > Bytes{1} << 50)
      refuse("mem[", i, "] is ", memory[i], ".\n  fix: at most 2^50.");
  }
  if (micro_batches < 1 || micro_batches > 1'000'000'000)
    refuse("n_b is ", micro_batches, ".\n  fix: from 1 to 1e9 micro-batches.");
}

REEF_INLINE std::vector<double> crossing_bytes(const std::vector<double>& outputs,
                                               const std::vector<std::pair<int, int>>& edges) {
  const int n = static_cast<int>(outputs.size());
  std::vector<int> last(outputs.size(), 0);  // reader of each operator's output
  for (const auto& [from, to] : edges) {
    if (from < 0 || to <= from || to >= n) {
      throw OptionError("reef::plan::crossing_bytes: an edge leads from ", from, " to ", to,
                        ".\n  why: ", n,
                        " operators are in an order in which each comes after "
                        "those that it reads.\n  fix: sort them so, and number them from 0.");
    }
    last[static_cast<std::size_t>(from)] = (std::max)(last[static_cast<std::size_t>(from)], to);
  }
  std::vector<double> crossing(outputs.size() + 1, 0);
  for (std::size_t from = 0; from < outputs.size(); ++from) {
    const auto reader = static_cast<std::size_t>(last[from]);
    for (std::size_t k = from + 1; k <= reader; ++k) crossing[k] += outputs[from];
  }
  return crossing;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
