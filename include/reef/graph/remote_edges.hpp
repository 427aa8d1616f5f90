#pragma once

#include <span>
#include <vector>

#include <reef/graph/dag.hpp>
#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A transfer between two ranks or stages, once for each micro-batch: of a tensor in the forward, or of the running sum
/// of its gradient in the backward.
struct RemoteEdge {
  int tensor = 0;  ///< id of the tensor that is sent, or whose gradient is sent
  /// The segment (consecutive nodes) after whose forward, or for a gradient backward, the transfer begins.
  int from = 0;
  int to = 0;      ///< the first segment of the receiver whose forward, or for a gradient backward, needs the data
  bool gradient = false;

  friend bool operator==(const RemoteEdge&, const RemoteEdge&) = default;
};

/// Returns the transfers between places (ranks, stages, or parts of stages) of a model whose segments are distributed
/// over them: for any cut of any Dag, with readers of a tensor on any place.
///
/// \code
/// // given: const graph::Dag& dag, const std::vector<graph::Segment>& segments
/// const std::vector<int> stages{0, 0, 1};  // by segment
/// const std::vector<graph::RemoteEdge> edges = graph::remote_edges(dag, segments, stages);
/// \endcode
///
/// | forward  | a tensor is sent once to each other place that reads it, from the place that computes it.       |
/// |          | Inputs of the Dag are not sent: each place reads its own                                        |
/// | backward | for each tensor, the segments whose backward adds to its gradient (Segment::input_gradients)    |
/// |          | are visited from the last to the first, then the segment that computed the tensor: the running  |
/// |          | sum is sent from place to place. So contributions are added in the order of the whole model's   |
/// |          | backward, and the bits do not depend on places                                                  |
/// | who      | graph::gradient_flow decides, equally on both ends, which gradients are sent: of differentiable |
/// |          | tensors, from each place where a node that leads to the loss reads the tensor                   |
/// | order    | by tensor, forward before backward; edges of one tensor in the order in which they are sent     |
/// | cost     | linear in the inputs of all nodes, and for each tensor readers times places                     |
/// | source   | FusionLLM's remote automatic differentiation, with running sums                                 |
/// | errors   | OptionError unless place_of_segment has one place for each segment                              |
std::vector<RemoteEdge> remote_edges(const Dag& dag, std::span<const Segment> segments,
                                     std::span<const int> place_of_segment);

/// Returns the transfers between ranks or stages (places) of a model in which each node is a segment of its own.
std::vector<RemoteEdge> remote_edges(const Dag& dag, std::span<const int> place_of_node);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/remote_edges.ipp>
#endif
