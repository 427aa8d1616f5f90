#pragma once

#include <cstdint>
#include <optional>

#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Returns the hash of a model: of its operators with their attributes, their connections, its
/// parameters and its loss. The batch size and other extents of activations are not hashed.
///
/// Ranks compare this hash before they start; a checkpoint stores it, and only loads into a model of the same hash.
///
/// \code
/// // given: const graph::Dag& dag
/// const std::uint64_t model = graph::hash_of(dag);
/// \endcode
std::uint64_t hash_of(const Dag& dag);

/// Returns the hash of the values of all parameters with Init::given, or std::nullopt if there are none. Ranks compare
/// this hash; a checkpoint does not store it. Cost: a pass over the values.
std::optional<std::uint64_t> hash_of_given(const Dag& dag);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/hash.ipp>
#endif
