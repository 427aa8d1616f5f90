#pragma once

#include <span>
#include <vector>

#include <reef/graph/dag.hpp>
#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A tensor that goes from a segment to another place, for each micro-batch once; or, on the way back, the running
/// sum of its gradient.
struct RemoteEdge {
  int tensor = 0;  ///< id
  int from = 0;    ///< the segment behind whose forward, or backward, it leaves
  int to = 0;      ///< the first segment there whose forward, or backward, needs it
  bool gradient = false;

  friend bool operator==(const RemoteEdge&, const RemoteEdge&) = default;
};

/// What a model exchanges whose segments are on several places (ranks, stages, or parts of those): any cut of any
/// Dag, with readers of a tensor wherever they are.
///
/// \code
/// // given: const graph::Dag& dag, const std::vector<graph::Segment>& segments
/// const std::vector<int> stages{0, 0, 1};  // by segment
/// const std::vector<graph::RemoteEdge> edges = graph::remote_edges(dag, segments, stages);
/// \endcode
///
/// | forward  | a tensor goes once to each other place that reads it, straight from where it is made. Inputs of |
/// |          | the Dag are nobody's to send: each place reads its own                                         |
/// | backward | of a tensor, the segments whose backward adds to its gradient (Segment::input_gradients) are    |
/// |          | visited from the last to the first, then the one that made it: from place to place the sum as   |
/// |          | it is goes once. So contributions are added in the order of the whole model's backward, and no  |
/// |          | bit knows of places                                                                             |
/// | who      | decided by graph::gradient_flow, alike on both ends: what is differentiable, and read there by  |
/// |          | what leads to the loss                                                                          |
/// | order    | by tensor, forward before backward; of one tensor in the order in which they are sent           |
/// | cost     | linear in the readings of tensors, and for each tensor readers times places                     |
/// | source   | FusionLLM's remote automatic differentiation, with sums chained                                 |
/// | errors   | OptionError where there are not as many places as segments                                      |
std::vector<RemoteEdge> remote_edges(const Dag& dag, std::span<const Segment> segments,
                                     std::span<const int> place_of_segment);

/// As that, each node a segment of its own.
std::vector<RemoteEdge> remote_edges(const Dag& dag, std::span<const int> place_of_node);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/remote_edges.ipp>
#endif
