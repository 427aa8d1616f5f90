#pragma once

#include <string_view>

#include <reef/core/language.hpp>

/// \file
/// The names of the kinds of instructions that a training step has for rounds with other peers, beside those of
/// optimizers (optim/kinds.hpp).
///
/// \code
/// // given: const schedule::Program& program
/// const auto is_offer = [](const schedule::Instruction& i) { return i.kind == swarm::kinds::offer; };
/// const auto offers = std::count_if(program.round.begin(), program.round.end(), is_offer);
/// \endcode

namespace reef {
inline namespace v0 {
namespace swarm::kinds {

inline constexpr std::string_view begin_round = "BeginRound";
inline constexpr std::string_view clear = "Clear";
inline constexpr std::string_view contribute = "Contribute";
inline constexpr std::string_view offer = "Offer";
inline constexpr std::string_view result = "Result";
inline constexpr std::string_view decide_round = "DecideRound";

}  // namespace swarm::kinds
}  // namespace v0
}  // namespace reef
