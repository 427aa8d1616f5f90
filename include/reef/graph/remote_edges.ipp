#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/graph/remote_edges.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

/// The segments that make, read and differentiate a tensor, ascending, each once.
struct TensorUsers {
  int producer = -1;
  std::vector<int> readers{};
  std::vector<int> contributors{};
};

/// `segment_of_node` ascends; -1 where a node is in none.
inline TensorUsers users_of(const Dag& dag, const GradientFlow& flow, int id,
                            std::span<const int> segment_of_node) {
  const auto add = [](std::vector<int>& segments, int segment) {
    if (segments.empty() || segments.back() != segment) segments.push_back(segment);
  };
  const Tensor& tensor = dag.tensor_at(id);
  TensorUsers users;
  if (tensor.producer < 0) return users;
  users.producer = segment_of_node[static_cast<std::size_t>(tensor.producer)];
  for (const int consumer : tensor.consumers) {
    const auto node = static_cast<std::size_t>(consumer);
    const int segment = segment_of_node[node];
    if (segment < 0) continue;
    add(users.readers, segment);
    if (flow.tensors[static_cast<std::size_t>(id)] && flow.nodes[node]) {
      add(users.contributors, segment);
    }
  }
  return users;
}

inline std::vector<RemoteEdge> remote_edges_between(const Dag& dag,
                                                    std::span<const int> segment_of_node,
                                                    std::span<const int> place_of_segment) {
  const auto place = [&](int segment) {
    return place_of_segment[static_cast<std::size_t>(segment)];
  };
  const GradientFlow flow = gradient_flow(dag);
  std::vector<RemoteEdge> edges;
  for (int tensor = 0; tensor < static_cast<int>(dag.tensors.size()); ++tensor) {
    const TensorUsers users = users_of(dag, flow, tensor, segment_of_node);
    if (users.producer < 0) continue;
    std::vector<int> served{place(users.producer)};
    for (const int reader : users.readers) {
      if (std::find(served.begin(), served.end(), place(reader)) != served.end()) continue;
      served.push_back(place(reader));
      edges.push_back({tensor, users.producer, reader, false});
    }
    if (users.contributors.empty()) continue;
    int from = users.contributors.back();
    const auto visit = [&](int to) {
      if (place(to) != place(from)) edges.push_back({tensor, from, to, true});
      from = to;
    };
    for (auto next = users.contributors.rbegin() + 1; next != users.contributors.rend(); ++next) {
      visit(*next);
    }
    visit(users.producer);
  }
  return edges;
}

}  // namespace detail

REEF_INLINE std::vector<RemoteEdge> remote_edges(const Dag& dag, std::span<const Segment> segments,
                                                 std::span<const int> place_of_segment) {
  if (place_of_segment.size() != segments.size()) {
    throw OptionError("reef::graph::remote_edges: ", place_of_segment.size(), " places for ",
                      segments.size(), " segments.\n  fix: one for each.");
  }
  std::vector<int> segment_of_node(dag.nodes.size(), -1);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    for (int n = segments[s].first; n < segments[s].last; ++n) {
      segment_of_node[static_cast<std::size_t>(n)] = static_cast<int>(s);
    }
  }
  return detail::remote_edges_between(dag, segment_of_node, place_of_segment);
}

REEF_INLINE std::vector<RemoteEdge> remote_edges(const Dag& dag,
                                                 std::span<const int> place_of_node) {
  if (place_of_node.size() != dag.nodes.size()) {
    throw OptionError("reef::graph::remote_edges: ", place_of_node.size(), " places for ",
                      dag.nodes.size(), " nodes.\n  fix: one for each.");
  }
  std::vector<int> segment_of_node(dag.nodes.size());
  std::iota(segment_of_node.begin(), segment_of_node.end(), 0);
  return detail::remote_edges_between(dag, segment_of_node, place_of_node);
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
