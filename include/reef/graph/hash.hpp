#pragma once

#include <cstdint>
#include <optional>

#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// What a model computes, as a number: its operators with their attributes, how they are wired, its
/// parameters and its loss. The batch and other shapes of activations do not count.
///
/// Ranks compare it before they start, and a checkpoint with the model that takes it over.
///
/// \code
/// // given: const graph::Dag& dag
/// const std::uint64_t model = graph::hash_of(dag);
/// \endcode
std::uint64_t hash_of(const Dag& dag);

/// The values that parameters are given to begin with, as a number; nothing where none are. Ranks compare it, a
/// checkpoint does not. Cost: a pass over these values.
std::optional<std::uint64_t> hash_of_given(const Dag& dag);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/hash.ipp>
#endif
