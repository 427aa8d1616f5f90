#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>

namespace reef::test {

/// A chain of nodes, of which each reads the one before, and hands on so many floats.
inline graph::Dag chain_of_widths(const std::vector<std::int64_t>& widths) {
  graph::Dag dag;
  int tensor = dag.add_input("x", {Shape{16}, Element::float32});
  for (std::size_t n = 0; n < widths.size(); ++n) {
    graph::Signature signature;
    signature.outputs = {{Shape{widths[n]}, Element::float32}};
    signature.parameters = {{"w", Shape{8}, graph::Init::ones(), true}};
    tensor = dag.node_at(dag.add_node(concat("n", n), "Node", {tensor}, signature)).outputs[0];
  }
  return dag;
}

/// A chain of nodes, of which each reads the one before, and now and then one far behind it.
inline graph::Dag chain_with_skips(int nodes, std::uint64_t seed) {
  graph::Dag dag;
  const graph::TensorSpec wide{Shape{4, 16}, Element::float32};
  std::vector<int> tensors{dag.add_input("x", wide)};
  for (int n = 0; n < nodes; ++n) {
    graph::Signature signature;
    signature.outputs = {wide};
    signature.parameters = {{"w", Shape{8}, graph::Init::ones(), true}};
    std::vector<int> inputs{tensors.back()};
    const std::uint32_t draw = random_bits({seed, 0, 0, 0}, static_cast<std::uint64_t>(n));
    if (n > 3 && draw % 4 == 0) inputs.push_back(tensors[draw % static_cast<std::uint32_t>(n)]);
    tensors.push_back(dag.node_at(dag.add_node(concat("n", n), "Node", inputs, signature)).outputs[0]);
  }
  return dag;
}

/// Of so many nodes, what each takes.
inline std::vector<Seconds> random_times(int nodes, std::uint64_t seed) {
  std::vector<Seconds> times;
  for (int n = 0; n < nodes; ++n) {
    times.push_back(1 + random_bits({seed, 1, 0, 0}, static_cast<std::uint64_t>(n)) % 9);
  }
  return times;
}

/// What the slowest of the chunks between these bounds takes.
inline Seconds slowest(const std::vector<Seconds>& times, const std::vector<int>& bounds) {
  Seconds most = 0;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    most = std::max(most, std::accumulate(times.begin() + bounds[i], times.begin() + bounds[i + 1], 0.0));
  }
  return most;
}

}  // namespace reef::test
