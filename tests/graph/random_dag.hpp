#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <reef/graph/dag.hpp>

namespace reef::test {

/// Drawn from a seed, the same everywhere.
class Draws {
public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}

  /// Of 0 to n - 1.
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  bool once_in(int n) { return below(n) == 0; }
  float real() { return static_cast<float>(below(1 << 20)) / 65536.F - 8.F; }

private:
  std::mt19937_64 engine_;
};

/// A model of anything that a Dag may have: inputs of both kinds, nodes with several outputs, some of them integers,
/// that read a tensor twice or what nobody else reads, parameters of several uses, results that are no loss.
inline graph::Dag random_dag(Draws& draws, int nodes) {
  graph::Dag dag;
  const graph::TensorSpec reals{{4}, Element::float32};
  const graph::TensorSpec integers{{3}, Element::int32};
  for (int i = 0; i < 2; ++i) {
    dag.add_input("x" + std::to_string(i), i == 0 ? integers : reals);
  }
  if (draws.once_in(4)) dag.add_input("learnt", reals, true);
  for (int n = 0; n < nodes; ++n) {
    const bool is_loss = n + 1 == nodes;
    graph::Signature signature;
    const int outputs = is_loss ? 1 : 1 + draws.below(2);
    for (int o = 0; o < outputs; ++o) {
      signature.outputs.push_back(is_loss || !draws.once_in(6) ? reals : integers);
    }
    if (is_loss) signature.outputs[0].shape = {1};
    std::vector<int> inputs;
    const int tensors = static_cast<int>(dag.tensors.size());
    for (int i = 1 + draws.below(3); i > 0; --i) {
      const int recent = tensors > 4 && draws.once_in(2) ? tensors - 4 : 0;
      inputs.push_back(recent + draws.below(tensors - recent));
      if (draws.once_in(6)) inputs.push_back(inputs.back());
    }
    for (int t = tensors - 1; is_loss && t >= 2 && t > tensors - 6; --t) inputs.push_back(t);
    std::vector<std::string> parameters;
    for (int p = draws.below(3); p > 0; --p) {
      signature.parameters.push_back({"w", {2}, graph::Init::zeros(), false});
      parameters.push_back("p" + std::to_string(draws.below(4)));
    }
    dag.add_node("n" + std::to_string(n), "Op", std::move(inputs), std::move(signature),
                 std::move(parameters));
  }
  if (!draws.once_in(5)) dag.set_loss(dag.nodes.back().outputs[0]);
  return dag;
}

/// Some place of each.
inline std::vector<int> random_places(Draws& draws, std::size_t count, int places) {
  std::vector<int> result;
  for (std::size_t i = 0; i < count; ++i) {
    const bool stays = i > 0 && draws.once_in(3);
    result.push_back(stays ? result.back() : draws.below(places));
  }
  return result;
}

}  // namespace reef::test
