#pragma once

#include <span>
#include <utility>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/pattern.hpp>
#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

REEF_INLINE int Dag::find(const Ids& ids, const char* what, std::string_view name) {
  const auto found = ids.find(name);
  if (found != ids.end()) return found->second;
  throw ShapeError("reef::graph: there is no ", what, " '", name, "' among the graph's ", ids.size(),
                   ".\n  fix: give a name that the graph has.");
}

REEF_INLINE void Dag::check_new(const Ids& ids, const char* what, std::string_view name) {
  if (ids.find(name) == ids.end()) return;
  throw ShapeError("reef::graph: a ", what, " '", name, "' exists already.\n  fix: give each a name of its own.");
}

REEF_INLINE int Dag::add_input(std::string name, TensorSpec spec, bool differentiable) {
  check_new(tensor_ids_, "tensor", name);
  if (spec.shape.size() == 0) {
    throw ShapeError("reef::graph: the input '", name, "' is ", spec.text(), nothing_to_do);
  }
  if (differentiable && !is_real(spec.element)) {
    throw ShapeError("reef::graph: the input '", name, "' holds ", name_of(spec.element),
                     ", which has no gradient.\n  fix: fp32, fp64 or bf16, or do not ask for one.");
  }
  const int id = static_cast<int>(tensors.size());
  tensor_ids_.emplace(name, id);
  tensors.push_back({std::move(name), spec, -1, {}, differentiable});
  inputs.push_back(id);
  return id;
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
  check_new(tensor_ids_, "tensor", name);
  tensor_ids_.emplace(name, id);
  tensor_ids_.erase(tensor_at(id).name);
  tensors[to_index(id)].name = std::move(name);
}

REEF_INLINE void Dag::rename_node(int id, std::string name) {
  if (id < 0 || id >= node_count()) {
    throw ShapeError("reef::graph: 'rename_node' names the node ", id, ", but the graph has ", node_count(),
                     ".\n  fix: an id that this graph gave.");
  }
  if (node_at(id).name == name) return;
  check_new(node_ids_, "node", name);
  node_ids_.emplace(name, id);
  node_ids_.erase(node_at(id).name);
  nodes[to_index(id)].name = std::move(name);
}

REEF_INLINE void Dag::initialise(std::string_view name, Init init) {
  const int id = parameter(name);
  if (!is_finite(init.scale) || init.scale < 0) {
    throw OptionError("reef::graph: the parameter '", name, "' is to begin with normal numbers of deviation ",
                      init.scale, ".\n  fix: a finite number of 0 or more.");
  }
  if (init.law == Init::Law::given && init.values == nullptr) {
    throw OptionError("reef::graph: the parameter '", name, "' is to begin with given values, and there are none.\n",
                      "  fix: Init::given(values).");
  }
  parameters[to_index(id)].init = std::move(init);
}

REEF_INLINE void Dag::freeze(std::string_view pattern) {
  std::vector<int> ids;
  for (std::size_t id = 0; id < parameters.size(); ++id) {
    if (fits_pattern(pattern, parameters[id].name)) ids.push_back(static_cast<int>(id));
  }
  if (ids.empty()) {
    throw OptionError("reef::graph: no parameter to freeze fits '", pattern, "'.\n  why: none of the graph's ",
                      parameters.size(), " has such a name.\n  fix: a name",
                      parameters.empty() ? "" : concat(" such as '", parameters.front().name, "'"),
                      ", or a part of it and *.");
  }
  freeze(ids);
}

REEF_INLINE void Dag::freeze(std::span<const int> ids) {
  for (const int id : ids) parameters[to_index(id)].frozen = true;
  for (const Node& node : nodes) derive_differentiable(node);
}

REEF_INLINE void Dag::derive_differentiable(const Node& node) {
  const bool any = trains(node) || std::any_of(node.inputs.begin(), node.inputs.end(),
                                               [this](int input) { return tensor_at(input).differentiable; });
  for (const int output : node.outputs) {
    Tensor& tensor = tensors[to_index(output)];
    tensor.differentiable = any && is_real(tensor.spec.element);
  }
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
  check_new(node_ids_, "node", name);
  for (const int input : node_inputs) {
    check_tensor(name, input);
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
    check_new(tensor_ids_, "tensor", output_names.back());
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
    if (const auto other = parameter_ids_.find(parameter_names[slot]); other != parameter_ids_.end()) {
      check_shared(other->first, parameter_at(other->second).spec.shape);
    }
    for (std::size_t i = 0; i < slot; ++i) {
      check_shared(parameter_names[i], signature.parameters[i].shape);
    }
  }

  const int id = node_count();
  node_ids_.emplace(name, id);
  Node node{std::move(name), std::move(kind), std::move(node_inputs), {}, {}, std::move(signature)};
  for (const int input : node.inputs) tensors[to_index(input)].consumers.push_back(id);
  for (std::size_t i = 0; i < node.signature.outputs.size(); ++i) {
    const TensorSpec& spec = node.signature.outputs[i];
    const int output = static_cast<int>(tensors.size());
    node.outputs.push_back(output);
    tensor_ids_.emplace(output_names[i], output);
    tensors.push_back({std::move(output_names[i]), spec, id, {}, false});
  }
  for (std::size_t slot = 0; slot < node.signature.parameters.size(); ++slot) {
    const ParameterSpec& spec = node.signature.parameters[slot];
    const auto [known, is_new] =
        parameter_ids_.emplace(parameter_names[slot], static_cast<int>(parameters.size()));
    if (is_new) {
      elements_ += spec.shape.size();
      parameters.push_back(
          {parameter_names[slot], {spec.shape, element}, spec.init, spec.decay, {}, spec.linear});
    }
    Parameter& parameter = parameters[to_index(known->second)];
    parameter.linear = parameter.linear && spec.linear;
    const int use = static_cast<int>(uses.size());
    uses.push_back({known->second, id, static_cast<int>(slot)});
    parameter.uses.push_back(use);
    node.uses.push_back(use);
  }
  derive_differentiable(node);
  nodes.push_back(std::move(node));
  return id;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
