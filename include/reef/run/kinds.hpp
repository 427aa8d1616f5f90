#pragma once

#include <string_view>

#include <reef/core/kinds.hpp>

/// \file
/// The names of the kinds of instructions that code in run/ writes and runs. Names are text, so that any code can add
/// some; these constants guard against misspelling.
///
/// \code
/// // given: schedule::Program& program
/// for (schedule::Instruction& i : program.round) {
///   if (i.kind == run::kinds::add_gradients) i.cost.seconds = 1e-3;
/// }
/// \endcode

namespace reef {
inline namespace v0 {
namespace run::kinds {

using reef::kinds::backward;
using reef::kinds::forward;
using reef::kinds::recompute;

inline constexpr std::string_view batch = "Batch";
inline constexpr std::string_view number = "Number";
inline constexpr std::string_view backward_input = "BackwardInput";
inline constexpr std::string_view backward_weight = "BackwardWeight";
inline constexpr std::string_view add_gradients = "AddGradients";
inline constexpr std::string_view fold_uses = "FoldUses";
inline constexpr std::string_view fold_rank = "FoldRank";
inline constexpr std::string_view download = "Download";
inline constexpr std::string_view upload = "Upload";
inline constexpr std::string_view download_tied = "DownloadTied";
inline constexpr std::string_view send_tied = "SendTied";
inline constexpr std::string_view receive_tied = "ReceiveTied";
inline constexpr std::string_view ready = "Ready";
inline constexpr std::string_view agree = "Agree";
inline constexpr std::string_view agreed = "Agreed";

}  // namespace run::kinds
}  // namespace v0
}  // namespace reef
