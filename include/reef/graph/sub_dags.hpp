#pragma once

#include <span>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/remote_messages.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// The messages that a rank or stage (place) receives and sends; each list is sorted by `of`, the id of the tensor or
/// parameter.
struct SubDagMessages {
  std::vector<RemoteMessage> receives;
  std::vector<RemoteMessage> sends;

  [[nodiscard]] Bytes received() const;
  [[nodiscard]] Bytes sent() const;
};

/// The part of a model's graph that one rank or stage (place) runs, and the messages that it exchanges with others.
///
/// | forward   | in each micro-batch: tensors                                                  |
/// | backward  | in each micro-batch: gradients of tensors, as sums passed from place to place |
/// | gradients | in each step: of the uses of a parameter that another place owns, sent there  |
/// | weights   | in each step: from the owner of a parameter to the other places that use it   |
struct SubDag {
  int place = 0;
  std::vector<int> nodes;       ///< ids of the nodes of this rank or stage, ascending
  std::vector<int> inputs;      ///< inputs of the model that these nodes read: each rank or stage reads its own
  std::vector<int> parameters;  ///< ids of the parameters that these nodes use
  Bytes parameter_bytes = 0;
  double forward_flops = 0;
  double backward_flops = 0;
  SubDagMessages forward, backward, gradients, weights;
};

/// Returns the part of the graph on each of `places` ranks or stages, in their order: its nodes, and the messages that
/// it receives and sends in a Trainer's programs, by graph::remote_edges.
///
/// | cost   | that of remote_edges                                                                  |
/// | errors | OptionError unless there is a place for each node, from 0 to `places` - 1             |
/// | source | FusionLLM, arXiv 2410.12707, section 3: the data that each sub-DAG requires and sends |
///
/// \code
/// // given: const graph::Dag& dag
/// std::vector<int> ranks(dag.nodes.size(), 0);
/// ranks.back() = 1;
/// const std::vector<graph::SubDag> parts = graph::sub_dags(dag, ranks, 2);
/// const std::string table = graph::text_of_sub_dags(dag, parts);
/// \endcode
std::vector<SubDag> sub_dags(const Dag& dag, std::span<const int> place_of_node, int places);

/// Returns the parts of a graph as a readable table, one rank or stage after the other.
std::string text_of_sub_dags(const Dag& dag, const std::vector<SubDag>& parts);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/sub_dags.ipp>
#endif
