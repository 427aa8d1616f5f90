#pragma once

#include <string_view>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/allocation.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Reads a case of allocate.
///
/// | latency_ms, bandwidth_gbps, devices | the network: see network_from_json                                 |
/// | D_PP, D_DP                          | stages, and pipelines                                              |
/// | c_pp_bytes, c_dp_bytes              | activations of a pipeline, and gradients of a stage                |
/// | speed, stage_flops                  | FLOP/s of each device, and FLOPs of a stage; optional              |
/// | device_flops                        | read instead of speed, where stage_flops is given and speed is not |
/// | cap, stage_bytes                    | memory of each device, and of a stage; optional                    |
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
