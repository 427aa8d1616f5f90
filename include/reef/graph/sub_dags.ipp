#pragma once

#include <algorithm>
#include <cstddef>
#include <set>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/remote_edges.hpp>
#include <reef/graph/sub_dags.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

inline Bytes bytes_of(const std::vector<RemoteMessage>& messages) {
  Bytes bytes = 0;
  for (const RemoteMessage& message : messages) bytes += message.bytes;
  return bytes;
}

/// The lines of what goes one way: "    receives  x (8, 64, 128) fp32 of rank 0, 256 KiB".
inline std::string lines_of(const std::vector<RemoteMessage>& messages, const char* what, const char* direction,
                            const auto& name_of_message, int RemoteMessage::*other) {
  std::string text;
  for (const RemoteMessage& message : messages) {
    text += concat("    ", what, " ", name_of_message(message.of), " ", direction, " rank ", message.*other, ", ",
                   format_bytes(message.bytes), "\n");
  }
  return text;
}

}  // namespace detail

REEF_INLINE Bytes SubDagMessages::received() const { return detail::bytes_of(receives); }
REEF_INLINE Bytes SubDagMessages::sent() const { return detail::bytes_of(sends); }

REEF_INLINE std::vector<SubDag> sub_dags(const Dag& dag, std::span<const int> place_of_node, int places) {
  const auto edges = remote_edges(dag, place_of_node);  // there is a place for each node
  std::vector<SubDag> parts(static_cast<std::size_t>((std::max)(places, 0)));
  for (int place = 0; place < places; ++place) parts[static_cast<std::size_t>(place)].place = place;
  const auto place_of = [&](int node) { return place_of_node[static_cast<std::size_t>(node)]; };
  std::vector<std::set<int>> inputs(parts.size()), parameters(parts.size());
  for (int n = 0; n < dag.node_count(); ++n) {
    if (place_of(n) < 0 || place_of(n) >= places) {
      throw OptionError("reef::graph::sub_dags: the node '", dag.node_at(n).name, "' is on place ", place_of(n),
                        ", of ", places, ".\n  fix: from 0 to ", places - 1, ".");
    }
    const auto place = static_cast<std::size_t>(place_of(n));
    SubDag& part = parts[place];
    part.nodes.push_back(n);
    part.forward_flops += dag.node_at(n).signature.forward_flops;
    part.backward_flops += dag.node_at(n).signature.backward_flops;
    for (const int input : dag.node_at(n).inputs) {
      if (dag.tensor_at(input).producer < 0) inputs[place].insert(input);
    }
    for (const int use : dag.node_at(n).uses) parameters[place].insert(dag.use_at(use).parameter);
  }
  for (std::size_t place = 0; place < parts.size(); ++place) {
    parts[place].inputs.assign(inputs[place].begin(), inputs[place].end());
    parts[place].parameters.assign(parameters[place].begin(), parameters[place].end());
    for (const int id : parts[place].parameters) parts[place].parameter_bytes += dag.parameter_at(id).spec.bytes();
  }
  const auto add = [&](const RemoteMessage& message, SubDagMessages SubDag::*way) {
    (parts[static_cast<std::size_t>(message.from)].*way).sends.push_back(message);
    (parts[static_cast<std::size_t>(message.to)].*way).receives.push_back(message);
  };
  for (const RemoteEdge& edge : edges) {
    add({edge.tensor, place_of(edge.from), place_of(edge.to), dag.tensor_at(edge.tensor).spec.bytes()},
        edge.gradient ? &SubDag::backward : &SubDag::forward);
  }
  for (const TiedParameter& tied : remote_messages(dag, place_of_node).tied) {
    for (RemoteMessage message : tied.gradients) {  // of a use
      message.of = tied.parameter;
      add(message, &SubDag::gradients);
    }
    for (const RemoteMessage& message : tied.weights) add(message, &SubDag::weights);
  }
  return parts;
}

REEF_INLINE std::string text_of_sub_dags(const Dag& dag, const std::vector<SubDag>& parts) {
  const auto tensor = [&](int id) { return concat(dag.tensor_at(id).name, " ", dag.tensor_at(id).spec.text()); };
  const auto gradient = [&](int id) { return concat("gradient of ", tensor(id)); };
  const auto weight = [&](int id) {
    return concat(dag.parameter_at(id).name, " ", dag.parameter_at(id).spec.shape.text());
  };
  const auto weight_gradient = [&](int id) { return concat("gradient of ", weight(id)); };
  std::string text;
  for (const SubDag& part : parts) {
    text += concat("rank ", part.place, ": ", part.nodes.size(), " operators, ", format_bytes(part.parameter_bytes),
                   " of parameters, ", part.forward_flops / 1e9, " + ", part.backward_flops / 1e9,
                   " GFLOP a micro-batch\n  operators ");
    for (const int n : part.nodes) text += concat(n == part.nodes.front() ? "" : ", ", dag.node_at(n).name);
    if (!part.inputs.empty()) text += "\n  reads     ";
    for (const int id : part.inputs) text += concat(id == part.inputs.front() ? "" : ", ", tensor(id));
    text += "\n";
    const auto way = [&](const char* name, const SubDagMessages& messages, const auto& name_of_message) {
      if (messages.receives.empty() && messages.sends.empty()) return;
      text += concat("  ", name, ", receives ", format_bytes(messages.received()), ", sends ",
                     format_bytes(messages.sent()), "\n");
      text += detail::lines_of(messages.receives, "receives", "from", name_of_message, &RemoteMessage::from);
      text += detail::lines_of(messages.sends, "sends   ", "to", name_of_message, &RemoteMessage::to);
    };
    way("forward", part.forward, tensor);
    way("backward", part.backward, gradient);
    way("step, gradients of tied parameters", part.gradients, weight_gradient);
    way("step, weights of tied parameters", part.weights, weight);
  }
  return text;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
