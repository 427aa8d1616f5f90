#pragma once

#include <string>
#include <utility>
#include <vector>

#include <reef/graph/dag.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/step_plan.hpp>

namespace reef::test {

/// A chain of `layers` nodes with a parameter of `elements` each, a skip from the first to the last,
/// and the first parameter tied to the last node. The last gives the loss.
inline graph::Dag chain_dag(int layers, std::int64_t elements) {
  graph::Dag dag;
  dag.element = Element::float32;
  const graph::TensorSpec wide{Shape{4, 16}, Element::float32};
  int x = dag.add_input("x", wide);
  int first = -1;
  for (int layer = 0; layer < layers; ++layer) {
    const bool last = layer + 1 == layers;
    graph::Signature signature;
    signature.outputs = {last ? graph::TensorSpec{Shape{}, Element::float32} : wide};
    signature.parameters = {{"w", Shape{elements}, graph::Init::ones(), true}};
    signature.forward_flops = 100;
    signature.backward_flops = 200;
    std::vector<int> inputs{x};
    if (last && layers > 2) inputs.push_back(first);
    const std::string name = "layer" + std::to_string(layer);
    const std::string weight = last ? "layer0.w" : name + ".w";
    const int node = dag.add_node(name, "Layer", inputs, signature, {weight});
    x = dag.node_at(node).outputs[0];
    if (layer == 0) first = x;
  }
  dag.set_loss(x);
  return dag;
}

/// A plan that cuts after every node.
inline run::StepPlan plan_of(const graph::Dag& dag, int ranks, std::vector<int> micro_batches,
                             int virtual_ranks = 1, bool discrete = false) {
  std::vector<int> cuts;
  for (int node = 0; node <= dag.node_count(); ++node) cuts.push_back(node);
  return run::make_step_plan(dag, cuts, ranks, virtual_ranks, std::move(micro_batches), discrete);
}

}  // namespace reef::test
