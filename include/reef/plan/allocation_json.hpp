#pragma once

#include <string_view>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/allocation.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Reads a problem for allocate(), the placement of pipeline stages on devices, from JSON.
///
/// | latency_ms, bandwidth_gbps, devices | the network: see network_from_json                                 |
/// | D_PP, D_DP                          | the number of stages, and of pipelines                             |
/// | c_pp_bytes, c_dp_bytes              | activation_bytes, and gradient_bytes of AllocationProblem          |
/// | speed, stage_flops                  | FLOP/s of each device, and FLOPs of a stage; optional              |
/// | device_flops                        | read instead of speed, where stage_flops is given and speed is not |
/// | cap, stage_bytes                    | bytes of each device's memory, bytes that a stage needs; optional  |
/// | errors                              | DecodeError or OptionError, naming the member                      |
///
/// \code
/// const io::Json json = io::read_json("houses.json");
/// const plan::AllocationProblem problem = plan::allocation_from_json(json, "houses.json");
/// \endcode
AllocationProblem allocation_from_json(const io::Json& json, std::string_view source);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/allocation_json.ipp>
#endif
