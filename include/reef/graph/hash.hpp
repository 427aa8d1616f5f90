#pragma once

#include <cstdint>
#include <optional>

#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Returns the hash of a model: of its operators with their attributes, their connections, its
/// parameters and its loss. The batch and other shapes of activations do not count.
///
/// Ranks compare this hash before they start, and a checkpoint is compared by it with the model that takes it over.
///
/// \code
/// // given: const graph::Dag& dag
/// const std::uint64_t model = graph::hash_of(dag);
/// \endcode
std::uint64_t hash_of(const Dag& dag);

/// Returns the hash of the values that parameters are given to begin with; nothing if there are none. Ranks compare
/// this hash, a checkpoint does not. Cost: a pass over these values.
std::optional<std::uint64_t> hash_of_given(const Dag& dag);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/hash.ipp>
#endif
