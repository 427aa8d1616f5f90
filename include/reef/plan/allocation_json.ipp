#pragma once

#include <string_view>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/allocation_json.hpp>
#include <reef/profile/network_json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE AllocationProblem allocation_from_json(const io::Json& json, std::string_view source) {
  std::vector<std::string_view> known{"devices",    "latency_ms", "bandwidth_gbps", "D_PP",
                                      "D_DP",       "c_pp_bytes", "c_dp_bytes",     "speed",
                                      "stage_flops", "cap",       "stage_bytes",    "seed"};
  known.insert(known.end(), profile::measured_keys.begin(), profile::measured_keys.end());
  io::require_known_keys(json, known, source);
  AllocationProblem problem;
  problem.stages = io::require<int>(json, "D_PP", source);
  problem.pipelines = io::require<int>(json, "D_DP", source);
  problem.activation_bytes = io::require<double>(json, "c_pp_bytes", source);
  problem.gradient_bytes = io::require<double>(json, "c_dp_bytes", source);
  const auto list = [&](const char* key) {
    return io::value_or<std::vector<double>>(json, key, {}, source);
  };
  problem.speeds =
      list(json.contains("stage_flops") && !json.contains("speed") ? "device_flops" : "speed");
  problem.stage_flops = io::value_or<double>(json, "stage_flops", 0, source);
  problem.memories = list("cap");
  problem.stage_bytes = io::value_or<double>(json, "stage_bytes", 0, source);
  problem.network = profile::network_from_json(json, source);
  problem.validate();
  return problem;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
