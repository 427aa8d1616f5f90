#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/graph/signature.hpp>

namespace reef::inline v0::graph {

/// A value of the graph: an input, or an output of one node.
struct Tensor {
  std::string name;
  TensorSpec spec;
  int producer = -1;            ///< the node, or -1 for an input of the graph
  std::vector<int> consumers;   ///< ascending; a node that reads it twice stands twice
  bool differentiable = false;  ///< it depends on a parameter, or on a differentiable input
};

/// One occurrence of a parameter in a node. Each has a gradient of its own.
struct Use {
  int parameter = 0;
  int node = 0;
  int slot = 0;  ///< which of the node's parameters
};

/// A parameter with all its uses, in the order of their nodes; tied parameters have several.
struct Parameter {
  std::string name;
  TensorSpec spec;
  Init init;
  bool decay = false;
  std::vector<int> uses;
};

/// One application of an operator.
struct Node {
  std::string name;
  std::string kind;
  std::vector<int> inputs;   ///< tensor ids
  std::vector<int> outputs;  ///< tensor ids
  std::vector<int> uses;     ///< use ids, one for each parameter of the signature
  Signature signature;
};

/// A model as plain data: operators, the tensors between them, and the parameters they use.
///
/// | order  | nodes are in topological order: a node reads only what stands before it; no cycle exists   |
/// | ids    | positions in `nodes`, `tensors`, `parameters`, `uses`; they never change                   |
/// | device | none: planners and simulators read it, and any rank can build it                          |
/// | errors | ShapeError naming node, tensor, what was expected and what was given, also where one has   |
/// |        | no elements; the Dag is unchanged                                                          |
struct Dag {
  Element element = Element::float32;  ///< of parameters
  std::vector<Node> nodes;
  std::vector<Tensor> tensors;
  std::vector<Parameter> parameters;
  std::vector<Use> uses;
  std::vector<int> inputs;  ///< tensor ids
  int loss = -1;            ///< tensor id, or -1: then every tensor that nobody reads is a result

  /// The id of a tensor, node or parameter by its name. Throws ShapeError when there is none.
  [[nodiscard]] int tensor(std::string_view name) const { return find(tensors, "tensor", name); }
  [[nodiscard]] int node(std::string_view name) const { return find(nodes, "node", name); }
  [[nodiscard]] int parameter(std::string_view name) const {
    return find(parameters, "parameter", name);
  }

  [[nodiscard]] const Tensor& tensor_at(int id) const { return tensors[index(id)]; }
  [[nodiscard]] const Node& node_at(int id) const { return nodes[index(id)]; }
  [[nodiscard]] const Parameter& parameter_at(int id) const { return parameters[index(id)]; }
  [[nodiscard]] const Use& use_at(int id) const { return uses[index(id)]; }
  [[nodiscard]] int node_count() const { return static_cast<int>(nodes.size()); }

  /// What a parameter's gradient is: its shape, of the type that elements are summed in.
  [[nodiscard]] TensorSpec gradient_spec(const Parameter& parameter) const {
    return {parameter.spec.shape, sum_of(parameter.spec.element)};
  }

  /// The elements of all parameters, each tied one counted once.
  [[nodiscard]] std::int64_t parameter_count() const {
    std::int64_t count = 0;
    for (const Parameter& parameter : parameters) count += parameter.spec.shape.size();
    return count;
  }

  /// A tensor that is given from outside. Its gradient is computed only if it is `differentiable`.
  int add_input(std::string name, TensorSpec spec, bool differentiable = false) {
    check_new(tensors, "tensor", name);
    if (spec.shape.size() == 0) {
      throw ShapeError("reef::graph: the input '", name, "' is ", spec.text(), nothing_to_do);
    }
    if (differentiable && !is_real(spec.element)) {
      throw ShapeError(
          "reef::graph: the input '", name, "' holds ", name_of(spec.element),
          ", which has no gradient.\n  fix: fp32, fp64 or bf16, or do not ask for one.");
    }
    tensors.push_back({std::move(name), spec, -1, {}, differentiable});
    inputs.push_back(static_cast<int>(tensors.size()) - 1);
    return inputs.back();
  }

  /// A node after all others; returns its id.
  ///
  /// Outputs are named after the node, with ".0", ".1" behind where there are several. Parameters
  /// are named `parameter_names`, or else node name + "." + the signature's name. A parameter that
  /// exists with the same shape is shared: one more use, and the first use's Init counts.
  int add_node(std::string name, std::string kind, std::vector<int> node_inputs,
               Signature signature, std::vector<std::string> parameter_names = {});

  /// Makes a scalar that nobody reads the loss: the one result that backward starts from.
  void set_loss(int id) {
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

  /// Gives a tensor another name ("logits").
  void rename(int id, std::string name) {
    check_tensor("rename", id);
    if (tensor_at(id).name == name) return;
    check_new(tensors, "tensor", name);
    tensors[index(id)].name = std::move(name);
  }

private:
  static constexpr std::string_view nothing_to_do =
      ", of no elements.\n  why: operators and optimizers have nothing to do on it.\n"
      "  fix: leave it out, or extents of 1 or more.";
  static constexpr std::string_view last_result =
      "only a result that no node reads can be the loss.";

  static std::size_t index(int id) { return static_cast<std::size_t>(id); }

  template <class Entry>
  static int find(const std::vector<Entry>& entries, const char* what, std::string_view name) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].name == name) return static_cast<int>(i);
    }
    throw ShapeError("reef::graph: there is no ", what, " '", name, "' among the graph's ",
                     entries.size(), ".\n  fix: give a name that the graph has.");
  }

  template <class Entry>
  static void check_new(const std::vector<Entry>& entries, const char* what,
                        std::string_view name) {
    for (const Entry& entry : entries) {
      if (entry.name == name) {
        throw ShapeError("reef::graph: a ", what, " '", name,
                         "' exists already.\n  fix: give each a name of its own.");
      }
    }
  }

  void check_tensor(std::string_view who, int id) const {
    if (id < 0 || id >= static_cast<int>(tensors.size())) {
      throw ShapeError("reef::graph: '", who, "' names the tensor ", id, ", but the graph has ",
                       tensors.size(), ".\n  fix: an id that this graph gave.");
    }
  }
};

inline int Dag::add_node(std::string name, std::string kind, std::vector<int> node_inputs,
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
          {parameter_names[slot], {spec.shape, element}, spec.init, spec.decay, {}});
    }
    const int use = static_cast<int>(uses.size());
    uses.push_back({static_cast<int>(parameter), id, static_cast<int>(slot)});
    parameters[parameter].uses.push_back(use);
    node.uses.push_back(use);
  }
  nodes.push_back(std::move(node));
  return id;
}

}  // namespace reef::inline v0::graph
