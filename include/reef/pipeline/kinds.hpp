#pragma once

#include <string_view>

#include <reef/core/language.hpp>

/// \file
/// The names of the kinds of instructions that send and receive tensors between stages (operands: run::SendView and
/// run::ReceiveView). The copies beside them are run::kinds::download and run::kinds::upload.
///
/// \code
/// // given: const schedule::Program& program
/// Bytes sent = 0;
/// for (const schedule::Instruction& i : program.round) {
///   if (i.kind == pipeline::kinds::send) sent += run::SendView(i).message().bytes;
/// }
/// \endcode

namespace reef {
inline namespace v0 {
namespace pipeline::kinds {

inline constexpr std::string_view send = "Send";
inline constexpr std::string_view receive = "Receive";

// Kinds of the barrier in which all stages of a replica notify each other that all their forwards have run.
inline constexpr std::string_view forwards_done = "ForwardsDone";
inline constexpr std::string_view forwards_barrier = "ForwardsBarrier";

}  // namespace pipeline::kinds
}  // namespace v0
}  // namespace reef
