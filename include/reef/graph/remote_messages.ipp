#pragma once

#include <algorithm>
#include <cstddef>
#include <set>

#include <reef/core/inline.hpp>
#include <reef/graph/remote_edges.hpp>
#include <reef/graph/remote_messages.hpp>
#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

/// The terms of a tensor's gradient in the order of a backward over the whole Dag.
inline std::vector<GradientTerm> gradient_terms(const Dag& dag, const GradientFlow& flow, int id) {
  std::vector<GradientTerm> terms;
  if (!flow.tensors[static_cast<std::size_t>(id)]) return terms;
  const std::vector<int>& consumers = dag.tensor_at(id).consumers;
  for (auto n = consumers.rbegin(); n != consumers.rend(); ++n) {
    const bool again = n != consumers.rbegin() && *n == *(n - 1);
    if (again || !flow.nodes[static_cast<std::size_t>(*n)]) continue;
    const std::vector<int>& inputs = dag.node_at(*n).inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == id) terms.push_back({*n, static_cast<int>(i)});
    }
  }
  return terms;
}

/// Each place's terms in a row are a step.
inline std::vector<GradientStep> chained_steps(const std::vector<GradientTerm>& terms,
                                               std::span<const int> place_of_node) {
  std::vector<GradientStep> steps;
  for (const GradientTerm& term : terms) {
    const int place = place_of_node[static_cast<std::size_t>(term.node)];
    if (steps.empty() || steps.back().place != place) steps.push_back({place, {}});
    steps.back().adds.push_back(term);
  }
  return steps;
}

inline StarSum star_sum(int tensor, int place, const std::vector<GradientTerm>& terms,
                        std::span<const int> place_of_node) {
  StarSum sum{tensor, place, {}, true};
  std::map<int, std::size_t> message_of_place;
  for (const GradientTerm& term : terms) {
    const int from = place_of_node[static_cast<std::size_t>(term.node)];
    const auto [at, is_new] = from == place ? std::pair{message_of_place.end(), true}
                                            : message_of_place.try_emplace(from, sum.terms.size());
    if (is_new) {
      sum.terms.push_back({from, {term}});
      continue;
    }
    // (a + b) + c is what one process adds; a + (b + c) is not, nor (a + c) + b.
    sum.serial_bits = sum.serial_bits && sum.terms.size() == 1;
    sum.terms[at->second].adds.push_back(term);
  }
  return sum;
}

inline TiedParameter tied_parameter(const Dag& dag, int id, std::span<const int> place_of_node) {
  const Parameter& parameter = dag.parameter_at(id);
  const auto place = [&](int use) {
    return place_of_node[static_cast<std::size_t>(dag.use_at(use).node)];
  };
  TiedParameter tied{id, place(parameter.uses.front()), parameter.uses, {}, {}};
  std::set<int> others;
  for (const int use : parameter.uses) {
    if (place(use) == tied.owner) continue;
    tied.gradients.push_back({use, place(use), tied.owner, dag.gradient_spec(parameter).bytes()});
    others.insert(place(use));
  }
  for (const int other : others) {
    tied.weights.push_back({id, tied.owner, other, parameter.spec.bytes()});
  }
  return tied;
}

}  // namespace detail

REEF_INLINE std::map<std::pair<int, int>, Bytes> RemoteMessages::bytes() const {
  std::map<std::pair<int, int>, Bytes> by_pair;
  for (const auto* messages : {&forward, &backward}) {
    for (const RemoteMessage& message : *messages) {
      by_pair[{message.from, message.to}] += message.bytes;
    }
  }
  return by_pair;
}

REEF_INLINE RemoteMessages remote_messages(const Dag& dag, std::span<const int> place_of_node) {
  const std::vector<RemoteEdge> edges = remote_edges(dag, place_of_node);
  const GradientFlow flow = gradient_flow(dag);
  const auto place = [&](int node) { return place_of_node[static_cast<std::size_t>(node)]; };
  RemoteMessages result;
  auto edge = edges.begin();
  for (int id = 0; id < static_cast<int>(dag.tensors.size()); ++id) {
    const Tensor& tensor = dag.tensor_at(id);
    const Bytes bytes = tensor.spec.bytes();
    std::vector<RemoteMessage> forward;
    std::vector<RemoteMessage> chain;
    for (; edge != edges.end() && edge->tensor == id; ++edge) {
      (edge->gradient ? chain : forward).push_back({id, place(edge->from), place(edge->to), bytes});
    }
    std::sort(forward.begin(), forward.end(),
              [](const RemoteMessage& a, const RemoteMessage& b) { return a.to < b.to; });
    result.forward.insert(result.forward.end(), forward.begin(), forward.end());

    const std::vector<GradientTerm> terms =
        tensor.producer < 0 ? std::vector<GradientTerm>() : detail::gradient_terms(dag, flow, id);
    std::set<int> places;
    for (const GradientTerm& term : terms) places.insert(place(term.node));
    for (const int from : places) {
      if (from == place(tensor.producer)) continue;
      result.backward.push_back({id, from, place(tensor.producer), bytes});
    }
    if (terms.size() > 1) {
      result.sums.push_back(detail::star_sum(id, place(tensor.producer), terms, place_of_node));
    }
    if (places.size() > 1) {
      result.chained.push_back({id, std::move(chain), detail::chained_steps(terms, place_of_node)});
    }
  }
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    if (dag.parameters[p].uses.size() < 2 || dag.parameters[p].frozen) continue;  // whose values all places make
    result.tied.push_back(detail::tied_parameter(dag, static_cast<int>(p), place_of_node));
  }
  return result;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
