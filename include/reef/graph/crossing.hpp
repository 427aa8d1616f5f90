#pragma once

#include <vector>

#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Returns the bytes that cross the boundary before each node, and after the last: those of all tensors that a node
/// before the boundary hands to one behind it, however far. Inputs of the Dag are available everywhere, and do not
/// count.
///
/// \code
/// // given: const graph::Dag& dag
/// const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
/// \endcode
std::vector<Bytes> crossing_bytes(const Dag& dag);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/crossing.ipp>
#endif
