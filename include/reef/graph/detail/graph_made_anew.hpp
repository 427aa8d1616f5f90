#pragma once

// The functions of Graph that make the model anew, of other inputs or operators.

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/graph/graph.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

template <device::device Device, real T>
std::vector<int> Graph<Device, T>::add_copy(const Graph& other, int node, std::vector<Ref> inputs) {
  const Node& from = other.dag_.node_at(node);
  std::vector<TensorSpec> specs;
  std::vector<std::string_view> names;
  std::vector<std::string> parameters;
  for (const int id : inputs) {
    specs.push_back(dag_.tensor_at(id).spec);
    names.emplace_back(dag_.tensor_at(id).name);
  }
  for (const int use : from.uses) parameters.push_back(other.dag_.parameter_at(other.dag_.use_at(use).parameter).name);
  auto op = other.operators_[static_cast<std::size_t>(node)];
  Signature signature = op->signature({from.name, op->kind(), specs, names, threads_});
  operators_.reserve(operators_.size() + 1);
  const int id = dag_.add_node(from.name, std::string(op->kind()), std::move(inputs), std::move(signature),
                               std::move(parameters));
  operators_.push_back(std::move(op));
  const std::vector<int> outputs = dag_.node_at(id).outputs;
  for (std::size_t i = 0; i < outputs.size() && i < from.outputs.size(); ++i) {
    const std::string& name = other.dag_.tensor_at(from.outputs[i]).name;
    if (dag_.tensor_at(outputs[i]).name != name) dag_.rename(outputs[i], name);
  }
  return outputs;
}

template <device::device Device, real T>
Graph<Device, T> Graph<Device, T>::with_inputs(std::span<const TensorSpec> inputs) const {
  if (inputs.size() != dag_.inputs.size()) {
    throw ShapeError("reef::graph: ", inputs.size(), " specs for a graph of ", dag_.inputs.size(),
                     " inputs.\n  fix: one for each input.");
  }
  Graph result = made_of(inputs, operators_);
  for (std::size_t i = 0; i < dag_.parameters.size(); ++i) {
    if (result.dag_.parameters[i].spec == dag_.parameters[i].spec) continue;
    throw ShapeError("reef::graph: the parameter '", dag_.parameters[i].name, "' of ",
                     dag_.parameters[i].spec.text(), " would be ",
                     result.dag_.parameters[i].spec.text(),
                     " with these inputs.\n  fix: inputs with the model's own channels.");
  }
  return result;
}

template <device::device Device, real T>
template <operator_for<Device, T> Op>
Graph<Device, T> Graph<Device, T>::with_operators(const std::map<int, Op>& others) const {
  Operators operators = operators_;
  for (const auto& [node, op] : others) {
    if (node < 0 || node >= dag_.node_count()) {
      throw ShapeError("reef::graph: an operator for the node ", node, ", but the graph has ",
                       dag_.node_count(), ".\n  fix: an id that this graph gave.");
    }
    operators[static_cast<std::size_t>(node)] =
        std::make_shared<detail::StoredOperator<Op, Device, T>>(op);
  }
  std::vector<TensorSpec> inputs;
  for (const int input : dag_.inputs) inputs.push_back(dag_.tensor_at(input).spec);
  return made_of(inputs, std::move(operators));
}

template <device::device Device, real T>
Graph<Device, T> Graph<Device, T>::made_of(std::span<const TensorSpec> inputs,
                                           Operators operators) const {
  Graph result(threads_);
  std::size_t input = 0;
  std::size_t n = 0;
  while (result.dag_.tensors.size() < dag_.tensors.size()) {
    const Tensor& tensor = dag_.tensors[result.dag_.tensors.size()];
    if (tensor.producer < 0) {
      result.dag_.add_input(tensor.name, inputs[input++], tensor.differentiable);
      continue;
    }
    const Node& node = dag_.nodes[n];
    std::vector<TensorSpec> specs;
    std::vector<std::string_view> names;
    std::vector<std::string> parameters;
    for (const int id : node.inputs) {
      specs.push_back(result.dag_.tensor_at(id).spec);
      names.emplace_back(dag_.tensor_at(id).name);
    }
    Signature signature =
        operators[n]->signature({node.name, operators[n]->kind(), specs, names, threads_});
    for (const ParameterSpec& own : signature.parameters) {
      parameters.push_back(concat(node.name, ".", own.name));
      for (const int use : node.uses) {
        if (node.signature.parameters[static_cast<std::size_t>(dag_.use_at(use).slot)].name !=
            own.name)
          continue;
        parameters.back() = dag_.parameter_at(dag_.use_at(use).parameter).name;
      }
    }
    const int id = result.dag_.add_node(node.name, std::string(operators[n]->kind()), node.inputs,
                                        std::move(signature), std::move(parameters));
    if (result.dag_.node_at(id).outputs.size() != node.outputs.size()) {
      throw ShapeError("reef::graph: the operator for the node '", node.name, "' has ",
                       result.dag_.node_at(id).outputs.size(), " outputs, the one before ",
                       node.outputs.size(), ".\n  fix: as many.");
    }
    for (const int output : result.dag_.node_at(id).outputs) {
      if (result.dag_.tensor_at(output).name != dag_.tensor_at(output).name) {
        result.dag_.rename(output, dag_.tensor_at(output).name);
      }
    }
    ++n;
  }
  for (const Parameter& parameter : dag_.parameters) {
    const bool stays =
        std::any_of(result.dag_.parameters.begin(), result.dag_.parameters.end(),
                    [&](const Parameter& other) { return other.name == parameter.name; });
    if (!stays) continue;
    result.initialise(parameter.name, parameter.init);
    if (parameter.frozen) result.freeze(parameter.name);
  }
  if (dag_.loss >= 0) result.loss(dag_.loss);
  result.operators_ = std::move(operators);
  return result;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
