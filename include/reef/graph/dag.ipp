#pragma once

#include <span>
#include <utility>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/graph/dag.hpp>

namespace reef::inline v0::graph {

REEF_INLINE std::int64_t Dag::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters) count += parameter.spec.shape.size();
  return count;
}

REEF_INLINE int Dag::add_input(std::string name, TensorSpec spec, bool differentiable) {
  check_new(tensors, "tensor", name);
  if (spec.shape.size() == 0) {
    throw ShapeError("reef::graph: the input '", name, "' is ", spec.text(), nothing_to_do);
  }
  if (differentiable && !is_real(spec.element)) {
    throw ShapeError("reef::graph: the input '", name, "' holds ", name_of(spec.element),
                     ", which has no gradient.\n  fix: fp32, fp64 or bf16, or do not ask for one.");
  }
  tensors.push_back({std::move(name), spec, -1, {}, differentiable});
  inputs.push_back(static_cast<int>(tensors.size()) - 1);
  return inputs.back();
}

REEF_INLINE void Dag::set_loss(int id) {
  check_tensor("loss", id);
  const Tensor& tensor = tensor_at(id);
  if (tensor.spec.shape.size() != 1 || !is_real(tensor.spec.element)) {
    throw ShapeError("reef::graph: the loss '", tensor.name, "' is ", tensor.spec.text(),
                     ".\n  fix: one element of fp32, fp64 or bf16.");
  }
  if (!tensor.consumers.empty()) {
    throw ShapeError("reef::graph: the loss '", tensor.name, "' is read by the node '",
                     node_at(tensor.consumers[0]).name, "'.\n  fix: ", last_result);
  }
  loss = id;
}

REEF_INLINE void Dag::rename(int id, std::string name) {
  check_tensor("rename", id);
  if (tensor_at(id).name == name) return;
  check_new(tensors, "tensor", name);
  tensors[index(id)].name = std::move(name);
}

REEF_INLINE void Dag::initialise(std::string_view name, Init init) {
  const int id = parameter(name);
  if (!is_finite(init.scale) || init.scale < 0) {
    throw OptionError("reef::graph: the parameter '", name, "' is to begin with normal numbers of deviation ", init.scale,
                      ".\n  fix: a finite number of 0 or more.");
  }
  if (init.law == Init::Law::given && init.values == nullptr) {
    throw OptionError("reef::graph: the parameter '", name, "' is to begin with given values, and there are none.\n",
                      "  fix: Init::given(values).");
  }
  parameters[index(id)].init = std::move(init);
}

REEF_INLINE void Dag::check_tensor(std::string_view who, int id) const {
  if (id < 0 || id >= static_cast<int>(tensors.size())) {
    throw ShapeError("reef::graph: '", who, "' names the tensor ", id, ", but the graph has ",
                     tensors.size(), ".\n  fix: an id that this graph gave.");
  }
}

REEF_INLINE int Dag::add_node(std::string name, std::string kind, std::vector<int> node_inputs,
                              Signature signature, std::vector<std::string> parameter_names) {
  // All checks stand before the first change.
  check_new(nodes, "node", name);
  bool differentiable = !signature.parameters.empty();
  for (const int input : node_inputs) {
    check_tensor(name, input);
    differentiable = differentiable || tensor_at(input).differentiable;
    if (input == loss) {
      throw ShapeError("reef::graph: the node '", name, "' reads the loss '", tensor_at(input).name,
                       "'.\n  fix: ", last_result);
    }
  }
  const auto check_elements = [&](const char* what, std::string_view which, const Shape& shape) {
    if (shape.size() != 0) return;
    throw ShapeError("reef::graph: the node '", name, "' of kind ", kind, " has the ", what, " '",
                     which, "' ", shape.text(), nothing_to_do);
  };
  std::vector<std::string> output_names;
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
    output_names.push_back(signature.outputs.size() == 1 ? name : concat(name, ".", i));
    check_new(tensors, "tensor", output_names.back());
    check_elements("output", output_names.back(), signature.outputs[i].shape);
  }
  if (!parameter_names.empty() && parameter_names.size() != signature.parameters.size()) {
    throw ShapeError("reef::graph: the node '", name, "' of kind ", kind, " has ",
                     signature.parameters.size(), " parameters, but ", parameter_names.size(),
                     " names were given.\n  fix: a name for each, or none.");
  }
  std::int64_t elements = parameter_count();
  for (std::size_t slot = 0; slot < signature.parameters.size(); ++slot) {
    const ParameterSpec& spec = signature.parameters[slot];
    if (parameter_names.size() <= slot) parameter_names.push_back(concat(name, ".", spec.name));
    check_elements("parameter", parameter_names[slot], spec.shape);
    elements += spec.shape.size();
    if (elements > Shape::max_size) {
      throw ShapeError("reef::graph: with the parameter '", parameter_names[slot], "' ",
                       spec.shape.text(), " of the node '", name,
                       "' the graph's have more elements than any memory holds.\n"
                       "  fix: a smaller model.");
    }
    const auto check_shared = [&](const std::string& other, const Shape& shape) {
      if (other != parameter_names[slot] || shape == spec.shape) return;
      throw ShapeError("reef::graph: the node '", name, "' shares the parameter '", other, "' as ",
                       spec.shape.text(), ", but it is ", shape.text(),
                       ".\n  fix: tie parameters of one shape, or give this one another name.");
    };
    for (const Parameter& other : parameters) check_shared(other.name, other.spec.shape);
    for (std::size_t i = 0; i < slot; ++i) {
      check_shared(parameter_names[i], signature.parameters[i].shape);
    }
  }

  const int id = node_count();
  Node node{std::move(name), std::move(kind), std::move(node_inputs), {}, {}, std::move(signature)};
  for (const int input : node.inputs) tensors[index(input)].consumers.push_back(id);
  for (std::size_t i = 0; i < node.signature.outputs.size(); ++i) {
    const TensorSpec& spec = node.signature.outputs[i];
    node.outputs.push_back(static_cast<int>(tensors.size()));
    tensors.push_back(
        {std::move(output_names[i]), spec, id, {}, differentiable && is_real(spec.element)});
  }
  for (std::size_t slot = 0; slot < node.signature.parameters.size(); ++slot) {
    const ParameterSpec& spec = node.signature.parameters[slot];
    std::size_t parameter = 0;
    while (parameter < parameters.size() && parameters[parameter].name != parameter_names[slot]) {
      ++parameter;
    }
    if (parameter == parameters.size()) {
      parameters.push_back(
          {parameter_names[slot], {spec.shape, element}, spec.init, spec.decay, {}, spec.linear});
    }
    parameters[parameter].linear = parameters[parameter].linear && spec.linear;
    const int use = static_cast<int>(uses.size());
    uses.push_back({static_cast<int>(parameter), id, static_cast<int>(slot)});
    parameters[parameter].uses.push_back(use);
    node.uses.push_back(use);
  }
  nodes.push_back(std::move(node));
  return id;
}

}  // namespace reef::inline v0::graph
