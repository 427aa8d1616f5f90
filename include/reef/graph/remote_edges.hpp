#pragma once

#include <span>
#include <vector>

#include <reef/graph/dag.hpp>
#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A tensor that goes from a segment to another place, once for each micro-batch; or, in the backward, the running
/// sum of its gradient.
struct RemoteEdge {
  int tensor = 0;  ///< the id of the tensor
  int from = 0;    ///< the segment behind whose forward, or backward, the tensor, or the sum, leaves
  int to = 0;      ///< the first segment of the other place whose forward, or backward, needs the tensor, or the sum
  bool gradient = false;

  friend bool operator==(const RemoteEdge&, const RemoteEdge&) = default;
};

/// Returns the edges between places (ranks, stages, or parts of stages) of a model whose segments are on several: for
/// any cut of any Dag, with readers of a tensor on any place.
///
/// \code
/// // given: const graph::Dag& dag, const std::vector<graph::Segment>& segments
/// const std::vector<int> stages{0, 0, 1};  // by segment
/// const std::vector<graph::RemoteEdge> edges = graph::remote_edges(dag, segments, stages);
/// \endcode
///
/// | forward  | a tensor goes once to each other place that reads it, directly from the place that makes it.    |
/// |          | Inputs of the Dag are not sent: each place reads its own                                        |
/// | backward | of a tensor, the segments whose backward adds to its gradient (Segment::input_gradients) are    |
/// |          | visited from the last to the first, then the one that made it: the running sum goes once from   |
/// |          | place to place. So contributions are added in the order of the whole model's backward, and no   |
/// |          | bit depends on places                                                                           |
/// | who      | graph::gradient_flow decides, alike on both ends, which gradients are sent: of a differentiable |
/// |          | tensor that a node which leads to the loss reads there                                          |
/// | order    | by tensor, forward before backward; edges of one tensor in the order in which they are sent     |
/// | cost     | linear in the readings of tensors, and for each tensor readers times places                     |
/// | source   | FusionLLM's remote automatic differentiation, with sums chained                                 |
/// | errors   | OptionError if there are not as many places as segments                                         |
std::vector<RemoteEdge> remote_edges(const Dag& dag, std::span<const Segment> segments,
                                     std::span<const int> place_of_segment);

/// Returns the edges between places of a model in which each node is a segment of its own.
std::vector<RemoteEdge> remote_edges(const Dag& dag, std::span<const int> place_of_node);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/remote_edges.ipp>
#endif
