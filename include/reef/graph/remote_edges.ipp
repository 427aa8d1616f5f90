#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/graph/remote_edges.hpp>

namespace reef::inline v0::graph {

namespace detail {

/// The segments that make, read and differentiate a tensor, ascending.
struct TensorUsers {
  int producer = -1;
  std::vector<int> readers{};
  std::vector<int> contributors{};
};

inline std::vector<TensorUsers> users_by_tensor(const Dag& dag, std::span<const Segment> segments) {
  std::vector<TensorUsers> users(dag.tensors.size());
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const int segment = static_cast<int>(s);
    for (const int id : segments[s].boundary_outputs) {
      users[static_cast<std::size_t>(id)].producer = segment;
    }
    for (const int id : segments[s].boundary_inputs) {
      users[static_cast<std::size_t>(id)].readers.push_back(segment);
    }
    for (const int id : segments[s].input_gradients) {
      users[static_cast<std::size_t>(id)].contributors.push_back(segment);
    }
  }
  return users;
}

}  // namespace detail

REEF_INLINE std::vector<RemoteEdge> remote_edges(const Dag& dag, std::span<const Segment> segments,
                                                 std::span<const int> place_of_segment) {
  if (place_of_segment.size() != segments.size()) {
    throw OptionError("reef::graph::remote_edges: ", place_of_segment.size(), " places for ",
                      segments.size(), " segments.\n  fix: one for each.");
  }
  const auto place = [&](int segment) { return place_of_segment[static_cast<std::size_t>(segment)]; };
  const std::vector<detail::TensorUsers> users = detail::users_by_tensor(dag, segments);
  std::vector<RemoteEdge> edges;
  for (std::size_t id = 0; id < users.size(); ++id) {
    const auto& [producer, readers, contributors] = users[id];
    if (producer < 0) continue;
    const int tensor = static_cast<int>(id);
    std::vector<int> served{place(producer)};
    for (const int reader : readers) {
      if (std::find(served.begin(), served.end(), place(reader)) != served.end()) continue;
      served.push_back(place(reader));
      edges.push_back({tensor, producer, reader, false});
    }
    if (contributors.empty()) continue;
    int from = contributors.back();
    const auto visit = [&](int to) {
      if (place(to) != place(from)) edges.push_back({tensor, from, to, true});
      from = to;
    };
    for (auto next = contributors.rbegin() + 1; next != contributors.rend(); ++next) visit(*next);
    visit(producer);
  }
  return edges;
}

}  // namespace reef::inline v0::graph
