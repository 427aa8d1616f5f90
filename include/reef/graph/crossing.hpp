#pragma once

#include <vector>

#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Returns, for the boundary before each node of a model's graph and for the one after the last, the bytes of all
/// tensors that are written by a node before the boundary and read by a node behind it, however far. Inputs of the
/// graph are available everywhere, and are not counted.
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
