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

/// A message between two ranks or stages (places): a value or a gradient.
struct RemoteMessage {
  int of = 0;  ///< id of the tensor, the use of a parameter or the parameter whose value or gradient is sent
  int from = 0;
  int to = 0;
  Bytes bytes = 0;

  friend bool operator==(const RemoteMessage&, const RemoteMessage&) = default;
};

/// One summand of a tensor's gradient: the gradient of one input of a node which reads the tensor. A node that reads
/// the tensor twice adds two terms.
struct GradientTerm {
  int node = 0;
  int input = 0;  ///< index of the input among the node's inputs

  friend bool operator==(const GradientTerm&, const GradientTerm&) = default;
};

/// The summands of a tensor's gradient that one rank or stage adds, in the order of `adds`.
struct GradientStep {
  int place = 0;
  std::vector<GradientTerm> adds;

  friend bool operator==(const GradientStep&, const GradientStep&) = default;
};

/// A tensor's gradient as one running sum: each rank or stage (place) adds its terms to the received sum, one by one,
/// and sends it on. The last message goes to the place that computed the tensor. The bits are those of one backward
/// over the whole model.
struct ChainedSum {
  int tensor = 0;
  std::vector<RemoteMessage> messages;  ///< messages of the sum, in the order in which they are sent
  std::vector<GradientStep> steps;      ///< visited ranks or stages in order; one that is visited twice is listed twice
};

/// A tensor's gradient as a sum of sums: each rank or stage (place) adds its own terms, and the place that computed the
/// tensor adds these sums.
///
/// | terms       | the summands that the tensor's place adds: the sum that another place sends, or one of its own |
/// |             | terms. They are ordered by their last node, descending                                         |
/// | serial_bits | the bits always are those of one backward over the whole Dag: only the first message may have  |
/// |             | several terms, and no message has terms both before and behind another's. If a kernel adds     |
/// |             | while it computes, only a ChainedSum has these bits                                            |
struct StarSum {
  int tensor = 0;
  int place = 0;
  std::vector<GradientStep> terms;
  bool serial_bits = false;
};

/// A parameter with several uses. Once in each step the gradient of each use is sent to the owner, which adds these
/// gradients in the order of uses, and sends the new weights.
struct TiedParameter {
  int parameter = 0;
  int owner = 0;                         ///< rank or stage of the parameter's first use
  std::vector<int> uses;                 ///< the ids of the parameter's uses, ascending
  std::vector<RemoteMessage> gradients;  ///< one message for each use on another rank or stage than the owner
  std::vector<RemoteMessage> weights;    ///< one message to each other rank or stage with a use, ascending
};

/// The messages of a model whose nodes are on several ranks or stages; each list is sorted by id.
struct RemoteMessages {
  std::vector<RemoteMessage> forward;   ///< tensors sent in a micro-batch's forward; those of one tensor by receiver
  std::vector<RemoteMessage> backward;  ///< gradients sent if sums are StarSums; sorted by tensor, then by receiver
  std::vector<StarSum> sums;            ///< gradients of tensors with several terms, as sums of sums
  std::vector<ChainedSum> chained;      ///< gradients of tensors with terms on several ranks or stages, as running sums
  std::vector<TiedParameter> tied;      ///< tied parameters, whose messages are sent once in each step

  /// Returns the bytes sent in a micro-batch, forward and backward with gradients as StarSums, by [from, to].
  [[nodiscard]] std::map<std::pair<int, int>, Bytes> bytes() const;
};

/// Returns the messages between ranks or stages (places) in forward, in backward and between the uses of tied
/// parameters: the edges of graph::remote_edges, which a Trainer's programs send, with each term of each gradient.
///
/// | chain, star | need equally many messages if the nodes of each place are contiguous; else a chain may have  |
/// |             | more. A Trainer sends the chain                                                              |
/// | ties        | gradients of all uses are sent, also of uses that do not lead to the loss: these are zero    |
/// | errors      | OptionError unless place_of_node has one place for each node                                 |
/// | cost        | that of remote_edges                                                                         |
/// | source      | FusionLLM, arXiv 2410.12707, remote automatic differentiation; chains are this library's own |
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
