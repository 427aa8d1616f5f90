#pragma once

#include <string_view>

#include <reef/core/kinds.hpp>

/// \file
/// The names of kinds of instructions that move weights, gradients and activations to host memory and back. The
/// operands of Load, LoadGradients, WriteBack, Stash and Restore, which are copies, are those of run::CopyView; those
/// of Evict are in swap::EvictView.
///
/// \code
/// // given: const schedule::Program& program
/// Bytes loaded = 0;
/// for (const schedule::Instruction& i : program.round) {
///   if (i.kind == swap::kinds::load) loaded += i.cost.bytes;
/// }
/// \endcode

namespace reef {
inline namespace v0 {
namespace swap::kinds {

using reef::kinds::evict;
using reef::kinds::load;

inline constexpr std::string_view load_gradients = "LoadGradients";
inline constexpr std::string_view write_back = "WriteBack";
inline constexpr std::string_view drop = "Drop";
inline constexpr std::string_view stash = "Stash";
inline constexpr std::string_view restore = "Restore";

}  // namespace swap::kinds
}  // namespace v0
}  // namespace reef
