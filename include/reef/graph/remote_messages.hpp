#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A message between two places: a value or a gradient.
struct RemoteMessage {
  int of = 0;  ///< the id of the tensor, the use or the parameter whose value or gradient is sent
  int from = 0;
  int to = 0;
  Bytes bytes = 0;

  friend bool operator==(const RemoteMessage&, const RemoteMessage&) = default;
};

/// One reading of a tensor by a node whose backward adds to the tensor's gradient. A node that reads it twice
/// gives two.
struct GradientTerm {
  int node = 0;
  int input = 0;  ///< the index among the node's inputs

  friend bool operator==(const GradientTerm&, const GradientTerm&) = default;
};

/// The terms that a place adds up, in this order.
struct GradientStep {
  int place = 0;
  std::vector<GradientTerm> adds;

  friend bool operator==(const GradientStep&, const GradientStep&) = default;
};

/// A gradient as one running sum: each place adds its terms to the received sum, one by one, and sends it on. The last
/// message leads to the place that made the tensor. The bits are those of one backward over the whole Dag.
struct ChainedSum {
  int tensor = 0;
  std::vector<RemoteMessage> messages;  ///< the messages, in the order in which they are sent
  std::vector<GradientStep> steps;      ///< the visits of places; a place that is visited twice stands twice
};

/// A gradient as a sum of sums: each place folds its own terms, and the place that made the tensor folds these sums.
///
/// | terms       | the terms that the place of the tensor folds: a message (the sum of another place's terms), or |
/// |             | one term of its own. In the order of their last node, from the last on                         |
/// | serial_bits | the bits are those of one backward over the whole Dag, whatever the values: no message but the |
/// |             | first has several terms, and none has some before and some behind another's. Where a kernel    |
/// |             | adds while it computes, only a ChainedSum has them                                             |
struct StarSum {
  int tensor = 0;
  int place = 0;
  std::vector<GradientStep> terms;
  bool serial_bits = false;
};

/// A parameter of several uses. Once a step the gradient of each use goes to the owner, which adds the gradients up in
/// the order of uses, and sends the new weights.
struct TiedParameter {
  int parameter = 0;
  int owner = 0;                         ///< the place of the first use
  std::vector<int> uses;                 ///< the ids of its uses, ascending
  std::vector<RemoteMessage> gradients;  ///< a message for each use on another place
  std::vector<RemoteMessage> weights;    ///< a message for each other place of a use, ascending
};

/// The messages of a model whose nodes are on several places, each list by id.
struct RemoteMessages {
  std::vector<RemoteMessage> forward;   ///< the tensors sent in a micro-batch; those of one tensor by place
  std::vector<RemoteMessage> backward;  ///< the gradients sent if sums are StarSums; those of one tensor by place
  std::vector<StarSum> sums;            ///< the gradients of tensors with several terms, as star sums
  std::vector<ChainedSum> chained;      ///< the gradients of tensors with terms on several places, as chains
  std::vector<TiedParameter> tied;      ///< the tied parameters, whose messages go once a step

  /// Returns the bytes of a micro-batch, forward and backward with StarSums, by [from, to].
  [[nodiscard]] std::map<std::pair<int, int>, Bytes> bytes() const;
};

/// Returns the messages between places, in forward, in backward and between the uses of a parameter: those of
/// graph::remote_edges, by which a Trainer's programs send, with every term of every gradient.
///
/// | chain, star | as many messages where the nodes of each place stand in a row; elsewhere a chain may have more. |
/// |             | A Trainer sends the chain                                                                       |
/// | ties        | gradients of all uses are sent, also of uses that do not lead to the loss: these are zero       |
/// | errors      | OptionError unless there is a place for each node                                               |
/// | cost        | that of remote_edges                                                                            |
/// | source      | FusionLLM, arXiv 2410.12707, remote automatic differentiation; chains are ours                  |
///
/// \code
/// // given: const graph::Dag& dag
/// std::vector<int> ranks(dag.nodes.size(), 0);
/// ranks.back() = 1;
/// const graph::RemoteMessages messages = graph::remote_messages(dag, ranks);
/// const Bytes sent = messages.bytes()[{0, 1}];
/// \endcode
RemoteMessages remote_messages(const Dag& dag, std::span<const int> place_of_node);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/remote_messages.ipp>
#endif
