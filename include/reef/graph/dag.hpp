#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/graph/signature.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A value in a model's graph: an input, or an output of one node.
struct Tensor {
  std::string name;
  TensorSpec spec;
  int producer = -1;            ///< the node that writes the tensor, or -1 for an input of the graph
  /// The nodes that read the tensor, ascending; a node that reads the tensor twice is listed twice.
  std::vector<int> consumers;
  bool differentiable = false;  ///< true: the tensor depends on a trained parameter, or on a differentiable input
};

/// One occurrence of a parameter in a node of the graph. Each use of a trained parameter has a gradient of its own.
struct Use {
  int parameter = 0;
  int node = 0;
  int slot = 0;  ///< the parameter's index among the parameters of its node
};

/// A parameter of the model with the ids of its uses, in the order of their nodes; a tied parameter has several uses.
struct Parameter {
  std::string name;
  TensorSpec spec;
  Init init;
  bool decay = false;
  std::vector<int> uses;
  /// True: ParameterSpec::linear is set in each of the parameter's uses (a matrix that multiplies rows).
  bool linear = false;
  bool frozen = false;  ///< true: the parameter keeps its values: it has no gradient, and no optimizer updates it
};

/// One application of an operator in a model's graph.
struct Node {
  std::string name;
  std::string kind;
  std::vector<int> inputs;   ///< ids of the tensors that the node reads
  std::vector<int> outputs;  ///< ids of the tensors that the node writes
  std::vector<int> uses;     ///< ids of the parameter uses, one for each parameter of the signature
  Signature signature;
};

/// A model as plain data: operators, the tensors between them, and the parameters they use.
///
/// | order  | nodes are in topological order: a node reads only existing tensors, so no cycle exists    |
/// | ids    | positions in `nodes`, `tensors`, `parameters`, `uses`; they never change                  |
/// | names  | are added and changed only by the member functions, which maintain an index of the names  |
/// | cost   | O(log n) string comparisons to look up, add or change a name                              |
/// | device | none: planners and simulators read it, and any rank can build it                          |
/// | errors | ShapeError naming node, tensor, the expected and the given spec, also if a tensor has no  |
/// |        | elements; the Dag is then unchanged                                                       |
///
/// \code
/// // given: const graph::Dag& dag
/// double flops = 0;
/// for (const graph::Node& node : dag.nodes) flops += node.signature.forward_flops;
/// \endcode
struct Dag {
  Element element = Element::float32;  ///< the element type of parameters
  std::vector<Node> nodes;
  std::vector<Tensor> tensors;
  std::vector<Parameter> parameters;
  std::vector<Use> uses;
  std::vector<int> inputs;  ///< ids of the tensors that are inputs of the model
  int loss = -1;  ///< the loss's tensor id; -1: there is none, and every tensor that no node reads is a result

  /// Returns the id of a tensor, node or parameter by its name. Throws ShapeError if the graph has no such name.
  [[nodiscard]] int tensor(std::string_view name) const { return find(tensor_ids_, "tensor", name); }
  [[nodiscard]] int node(std::string_view name) const { return find(node_ids_, "node", name); }
  [[nodiscard]] int parameter(std::string_view name) const {
    return find(parameter_ids_, "parameter", name);
  }

  [[nodiscard]] const Tensor& tensor_at(int id) const& { return tensors[to_index(id)]; }
  [[nodiscard]] Tensor tensor_at(int id) const&& { return tensors[to_index(id)]; }
  [[nodiscard]] const Node& node_at(int id) const& { return nodes[to_index(id)]; }
  [[nodiscard]] Node node_at(int id) const&& { return nodes[to_index(id)]; }
  [[nodiscard]] const Parameter& parameter_at(int id) const& { return parameters[to_index(id)]; }
  [[nodiscard]] Parameter parameter_at(int id) const&& { return parameters[to_index(id)]; }
  [[nodiscard]] Use use_at(int id) const { return uses[to_index(id)]; }
  [[nodiscard]] int node_count() const { return static_cast<int>(nodes.size()); }

  /// Returns true if the parameter of this use is trained, not frozen; the function for a node: if any of its
  /// parameters is.
  [[nodiscard]] bool trains_use(int use) const { return !parameter_at(use_at(use).parameter).frozen; }
  [[nodiscard]] bool trains(const Node& node) const {
    return std::any_of(node.uses.begin(), node.uses.end(), [this](int use) { return trains_use(use); });
  }

  /// Returns the specification of a parameter's gradient: the parameter's shape, and the type in which elements are
  /// summed.
  [[nodiscard]] TensorSpec gradient_spec(const Parameter& parameter) const {
    return {parameter.spec.shape, sum_of(parameter.spec.element)};
  }

  /// Returns the number of elements of all parameters together; a tied parameter counts once.
  [[nodiscard]] std::int64_t parameter_count() const { return elements_; }

  /// Adds an input of the model, whose values callers give; returns its tensor id. Its gradient is computed only if
  /// `differentiable`.
  int add_input(std::string name, TensorSpec spec, bool differentiable = false);

  /// Adds a node, an application of an operator, after all others; returns its id.
  ///
  /// Outputs have the node's name, followed by ".0", ".1" if there are several. Parameters have the names in
  /// `parameter_names`, or without them node name + "." + the signature's name. If a parameter of that name and
  /// shape exists already, the node shares it: it adds a use, and the Init of the first use stays in effect.
  int add_node(std::string name, std::string kind, std::vector<int> node_inputs,
               Signature signature, std::vector<std::string> parameter_names = {});

  /// Declares that a scalar tensor, which no node may read, is the loss: the one result from which backward starts.
  void set_loss(int id);

  /// Gives a tensor of the graph another name, such as "logits".
  void rename(int id, std::string name);

  /// Gives a node of the graph another name; its outputs and parameters keep theirs.
  void rename_node(int id, std::string name);

  /// Sets a parameter's initialisation, in place of what its first use declares. Throws OptionError for a negative
  /// or infinite standard deviation, or for Init::Law::given without values.
  void initialise(std::string_view name, Init init);

  /// Freezes the parameters whose names match a pattern (core/pattern.hpp): they keep their values, and tensors that
  /// depend on no other parameters are no longer differentiable. Throws OptionError if no name matches.
  void freeze(std::string_view pattern);
  /// Freezes the parameters with these ids: they keep their values in training.
  void freeze(std::span<const int> ids);

private:
  static constexpr std::string_view nothing_to_do =
      ", of no elements.\n  why: operators and optimizers have nothing to do on it.\n"
      "  fix: leave it out, or extents of 1 or more.";
  static constexpr std::string_view last_result =
      "only a result that no node reads can be the loss.";

  static std::size_t to_index(int id) { return static_cast<std::size_t>(id); }

  /// A map from names to ids; tensors, nodes and parameters of the graph have a map each.
  using Ids = std::map<std::string, int, std::less<>>;

  static int find(const Ids& ids, const char* what, std::string_view name);

  static void check_new(const Ids& ids, const char* what, std::string_view name);

  void check_tensor(std::string_view who, int id) const;

  /// Sets whether a node's outputs are differentiable: those of a real type are, if the node uses a trained parameter
  /// or reads a differentiable tensor.
  void derive_differentiable(const Node& node);

  Ids tensor_ids_;
  Ids node_ids_;
  Ids parameter_ids_;
  std::int64_t elements_ = 0;  // the number of elements of all parameters
};

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/dag.ipp>
#endif
