#pragma once

#include <array>
#include <string_view>

#include <reef/core/kinds.hpp>

/// \file
/// The names of the kinds of instructions in the programs that planners simulate: those of swap_program, named as in
/// the programs of a training step, and those of programs_of for pipelines.
///
/// \code
/// // given: const schedule::Program& program
/// int sent = 0;
/// for (const schedule::Instruction& i : program.round) {
///   sent += i.kind == plan::kinds::send_activation ? 1 : 0;
/// }
/// \endcode

namespace reef {
inline namespace v0 {
namespace plan::kinds {

using reef::kinds::backward;
using reef::kinds::evict;
using reef::kinds::forward;
using reef::kinds::load;

inline constexpr std::string_view send_activation = "SendActivation";
inline constexpr std::string_view send_gradient = "SendGradient";
inline constexpr std::string_view receive_activation = "ReceiveActivation";
inline constexpr std::string_view receive_gradient = "ReceiveGradient";

/// The kinds of the instructions of a pipeline's tasks (forward, backward and its halves), indexed by PipelineTaskKind.
inline constexpr std::array<std::string_view, 4> pipeline_tasks{"F", "B", "I", "W"};

}  // namespace plan::kinds
}  // namespace v0
}  // namespace reef
