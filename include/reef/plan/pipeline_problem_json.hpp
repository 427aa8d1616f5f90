#pragma once

#include <string_view>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/pipeline_problem.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Reads a sequence of operators and the devices that may run it from JSON.
///
/// | flops, mem     | operations for a micro-batch, and bytes, by operator                 |
/// | cut            | bytes that cross each boundary, one boundary more than operators     |
/// | outputs, edges | instead of cut, for a graph: bytes by operator, and [from, to] pairs |
/// | speed, cap     | operations per second and bytes, by device                           |
/// | alpha, beta    | square matrices [from][to]: seconds of latency, and seconds per byte |
/// | n_b            | the number of micro-batches                                          |
/// | devices        | the names of devices; may be left out                                |
/// | network        | instead of alpha and beta: latency_ms, bandwidth_gbps, devices, see  |
/// |                | network_from_json; and device_flops instead of speed                 |
/// | errors         | DecodeError, naming the entry                                        |
///
/// \code
/// const io::Json json = io::read_json("case.json");
/// const plan::PipelineProblem problem = plan::pipeline_problem_from_json(json, "case.json");
/// \endcode
PipelineProblem pipeline_problem_from_json(const io::Json& json, std::string_view source);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_problem_json.ipp>
#endif
