#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/graph/graph.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A model under construction out of the nodes of another model: the argument of the function that rewritten() calls
/// for each node.
template <class Device, real T>
struct Rewriting {
  const Graph<Device, T>& model;  ///< the model that is rewritten, from which nodes are copied
  Graph<Device, T> result;        ///< the model under construction, with the nodes added so far
  /// For each tensor of `model`: the tensor in `result` that further nodes read in its place.
  std::vector<int> now;

  /// Returns the tensors of `result` that a node of `model` reads when it is added there.
  [[nodiscard]] std::vector<int> inputs_of(int node) const {
    std::vector<int> inputs;
    for (const int id : model.dag().node_at(node).inputs) inputs.push_back(now[static_cast<std::size_t>(id)]);
    return inputs;
  }
  /// Returns the names of the parameters of a node of `model`.
  [[nodiscard]] std::vector<std::string> parameters_of(int node) const {
    std::vector<std::string> names;
    for (const int use : model.dag().node_at(node).uses) {
      names.push_back(model.dag().parameter_at(model.dag().use_at(use).parameter).name);
    }
    return names;
  }
};

/// Returns a copy of a model in which a function may replace nodes: own(rewriting, node) adds nodes to
/// rewriting.result, and returns the tensors that stand for the outputs of `node`; if it returns no tensors, the node
/// is copied.
///
/// Parameters that are in both models keep their initialisation, and stay frozen if they are. Throws ShapeError if a
/// node does not accept the tensors that it now reads.
///
/// \code
/// #include <reef/nn/exact_gelu.hpp>
/// #include <reef/nn/gelu.hpp>
/// // given: const graph::Graph<device::Host, float>& model
/// const auto exact = graph::rewritten(model, [](auto& to, int n) {
///   if (to.model.template operator_as<nn::Gelu>(n) == nullptr) return std::vector<int>{};
///   return to.result.add(to.model.dag().node_at(n).name, nn::ExactGelu{}, to.inputs_of(n));
/// });
/// \endcode
template <class Device, real T, class Own>
Graph<Device, T> rewritten(const Graph<Device, T>& model, const Own& own) {
  const Dag& dag = model.dag();
  Rewriting<Device, T> to{model, Graph<Device, T>(model.threads()), std::vector<int>(dag.tensors.size(), -1)};
  for (const int id : dag.inputs) {
    const Tensor& tensor = dag.tensor_at(id);
    to.now[static_cast<std::size_t>(id)] = to.result.input(tensor.name, tensor.spec, tensor.differentiable);
  }
  for (int n = 0; n < dag.node_count(); ++n) {
    std::vector<int> outputs = own(to, n);
    if (outputs.empty()) outputs = to.result.add_copy(model, n, to.inputs_of(n));
    const std::vector<int>& before = dag.node_at(n).outputs;
    for (std::size_t i = 0; i < before.size() && i < outputs.size(); ++i) {
      to.now[static_cast<std::size_t>(before[i])] = outputs[i];
    }
  }
  for (const Parameter& parameter : dag.parameters) {
    const std::vector<Parameter>& all = to.result.dag().parameters;
    const bool stays =
        std::any_of(all.begin(), all.end(), [&](const Parameter& other) { return other.name == parameter.name; });
    if (!stays) continue;
    to.result.initialise(parameter.name, parameter.init);
    if (parameter.frozen) to.result.freeze(parameter.name);
  }
  if (dag.loss >= 0) to.result.loss(to.now[static_cast<std::size_t>(dag.loss)]);
  return std::move(to.result);
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
