#pragma once

#include <string_view>

#include <reef/core/language.hpp>

/// \file
/// The names of the kinds of instructions that optimizer policies append to a program.
///
/// \code
/// // given: schedule::Program& program, run::Value late
/// for (schedule::Instruction& i : program.round) {
///   if (i.kind == optim::kinds::reduce_scatter) i.after.push_back(late);  // it waits for that too
/// }
/// \endcode

namespace reef {
inline namespace v0 {
namespace optim::kinds {

// Kinds of every step: optim/decision.hpp, own_decision.hpp, update.hpp.
inline constexpr std::string_view count = "Count";
inline constexpr std::string_view norms = "Norms";
inline constexpr std::string_view scalars = "Scalars";
inline constexpr std::string_view decide = "Decide";
inline constexpr std::string_view own_norms = "OwnNorms";
inline constexpr std::string_view own_decide = "OwnDecide";
inline constexpr std::string_view replica_scalars = "ReplicaScalars";
inline constexpr std::string_view replica_decide = "ReplicaDecide";
inline constexpr std::string_view weigh = "Weigh";
inline constexpr std::string_view update = "Update";
inline constexpr std::string_view publish = "Publish";

// Kinds that exchange buckets among ranks.
inline constexpr std::string_view reduce_scatter = "ReduceScatter";
inline constexpr std::string_view gather_gradients = "GatherGradients";
inline constexpr std::string_view gather_weights = "GatherWeights";

// Kinds of the instructions of rounds that overlap.
inline constexpr std::string_view hand_over = "HandOver";
inline constexpr std::string_view hand_counts = "HandCounts";
inline constexpr std::string_view estimate = "Estimate";
inline constexpr std::string_view install = "Install";

// Kinds of the instructions of outer steps (DiLoCo).
inline constexpr std::string_view hand_out = "HandOut";
inline constexpr std::string_view reduce_weights = "ReduceWeights";
inline constexpr std::string_view differences = "Differences";
inline constexpr std::string_view gather_differences = "GatherDifferences";
inline constexpr std::string_view outer_update = "OuterUpdate";
inline constexpr std::string_view outer_begin = "OuterBegin";
inline constexpr std::string_view gather_outer = "GatherOuter";
inline constexpr std::string_view merge = "Merge";
inline constexpr std::string_view gather_committed = "GatherCommitted";

}  // namespace optim::kinds
}  // namespace v0
}  // namespace reef
