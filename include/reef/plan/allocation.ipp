#pragma once

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/allocation.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE AllocationProblem AllocationProblem::in_shape(int new_stages, int new_pipelines) const {
  AllocationProblem result = *this;
  const double stage = static_cast<double>(stages) / new_stages;
  const double share = static_cast<double>(pipelines) / new_pipelines;
  result.stages = new_stages;
  result.pipelines = new_pipelines;
  result.activation_bytes *= share;
  result.gradient_bytes *= stage;
  result.stage_flops *= stage * share;
  result.stage_bytes *= stage;
  return result;
}

REEF_INLINE void AllocationProblem::validate() const {
  network.validate();
  const auto refuse = [](const auto&... what) {
    throw OptionError("reef::plan::allocate: ", what...);
  };
  if (network.devices > max_allocated_devices) {
    refuse("there are ", network.devices, " devices.\n  fix: at most ", max_allocated_devices,
           ".");
  }
  if (stages < 1) refuse("D_PP is ", stages, ".\n  fix: at least 1 stage.");
  if (pipelines < 1) refuse("D_DP is ", pipelines, ".\n  fix: at least 1 pipeline.");
  const auto check_range = [&](const char* name, double value, double least) {
    if (within(value, least, 1e21)) return;
    refuse(name, " is ", value, ".\n  fix: a number from ", least, " to 1e21.");
  };
  check_range("c_pp_bytes", activation_bytes, 0);
  check_range("c_dp_bytes", gradient_bytes, 0);
  check_range("stage_flops", stage_flops, 0);
  check_range("stage_bytes", stage_bytes, 0);
  const auto check_all = [&](const char* name, const std::vector<double>& values, double least) {
    if (!values.empty() && values.size() != static_cast<std::size_t>(network.devices)) {
      refuse(name, " has ", values.size(), " numbers for ", network.devices,
             " devices.\n  fix: one for each.");
    }
    for (const double value : values) check_range(name, value, least);
  };
  check_all("speed", speeds, 1);
  check_all("cap", memories, 0);
  if (stage_flops > 0 && speeds.empty()) {
    refuse("stage_flops is given without speed.\n  fix: FLOP/s of each device.");
  }
  if (stage_bytes > 0 && memories.empty()) {
    refuse("stage_bytes is given without cap.\n  fix: the memory of each device.");
  }
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
