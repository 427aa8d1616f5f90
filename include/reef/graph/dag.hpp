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

/// A value of the graph: an input, or an output of one node.
struct Tensor {
  std::string name;
  TensorSpec spec;
  int producer = -1;            ///< the node that writes the tensor, or -1 for an input of the graph
  std::vector<int> consumers;   ///< the nodes that read the tensor, ascending; one that reads it twice stands twice
  bool differentiable = false;  ///< the tensor depends on a trained parameter, or on a differentiable input
};

/// One occurrence of a parameter in a node. Each use of a trained parameter has a gradient of its own.
struct Use {
  int parameter = 0;
  int node = 0;
  int slot = 0;  ///< the index among the node's parameters
};

/// A parameter with all its uses, in the order of their nodes; tied parameters have several.
struct Parameter {
  std::string name;
  TensorSpec spec;
  Init init;
  bool decay = false;
  std::vector<int> uses;
  bool linear = false;  ///< the parameter is linear in each of its uses (ParameterSpec)
  bool frozen = false;  ///< the parameter keeps its values: it has no gradient, and no optimizer sees it
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
/// | order  | nodes are in topological order: a node reads only tensors made before it; no cycle exists |
/// | ids    | positions in `nodes`, `tensors`, `parameters`, `uses`; they never change                  |
/// | names  | are added and changed by the functions alone, which keep an index of them                 |
/// | cost   | O(log n) string comparisons for a name that is looked up, added or changed                |
/// | device | none: planners and simulators read it, and any rank can build it                          |
/// | errors | ShapeError naming node, tensor, the expected and the given spec, also where a tensor has  |
/// |        | no elements; the Dag is unchanged                                                         |
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
  std::vector<int> inputs;  ///< tensor ids
  int loss = -1;            ///< the loss's tensor id, or -1: then every tensor that no node reads is a result

  /// Returns the id of a tensor, node or parameter by its name. Throws ShapeError when there is none.
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

  /// Returns whether the use's parameter is trained, not frozen; of a node: whether any of its parameters is.
  [[nodiscard]] bool trains_use(int use) const { return !parameter_at(use_at(use).parameter).frozen; }
  [[nodiscard]] bool trains(const Node& node) const {
    return std::any_of(node.uses.begin(), node.uses.end(), [this](int use) { return trains_use(use); });
  }

  /// Returns the spec of a parameter's gradient: the parameter's shape, and the type that elements are summed in.
  [[nodiscard]] TensorSpec gradient_spec(const Parameter& parameter) const {
    return {parameter.spec.shape, sum_of(parameter.spec.element)};
  }

  /// Returns the number of elements of all parameters; a tied parameter counts once.
  [[nodiscard]] std::int64_t parameter_count() const { return elements_; }

  /// Adds a tensor that is given from outside. Its gradient is computed only if it is `differentiable`.
  int add_input(std::string name, TensorSpec spec, bool differentiable = false);

  /// Adds a node after all others; returns its id.
  ///
  /// Outputs are named after the node, with ".0", ".1" behind where there are several. Parameters
  /// are named `parameter_names`, or else node name + "." + the signature's name. A parameter that
  /// exists with the same shape is shared: one more use, and the first use's Init counts.
  int add_node(std::string name, std::string kind, std::vector<int> node_inputs,
               Signature signature, std::vector<std::string> parameter_names = {});

  /// Makes a scalar that no node reads the loss: the one result that backward starts from.
  void set_loss(int id);

  /// Gives a tensor another name ("logits").
  void rename(int id, std::string name);

  /// Gives a node another name; its outputs and parameters keep theirs.
  void rename_node(int id, std::string name);

  /// Sets how a parameter begins, in place of what its first use says. Throws OptionError for a deviation below 0 or
  /// not finite, or given values that are missing.
  void initialise(std::string_view name, Init init);

  /// Freezes the parameters whose names fit a pattern, as core/pattern.hpp has it: they keep their values, and what
  /// depends on them alone is no longer differentiable. Throws OptionError where no name fits.
  void freeze(std::string_view pattern);
  /// Freezes parameters by their ids.
  void freeze(std::span<const int> ids);

private:
  static constexpr std::string_view nothing_to_do =
      ", of no elements.\n  why: operators and optimizers have nothing to do on it.\n"
      "  fix: leave it out, or extents of 1 or more.";
  static constexpr std::string_view last_result =
      "only a result that no node reads can be the loss.";

  static std::size_t to_index(int id) { return static_cast<std::size_t>(id); }

  /// Maps from names to ids, one map for each sort of entries.
  using Ids = std::map<std::string, int, std::less<>>;

  static int find(const Ids& ids, const char* what, std::string_view name);

  static void check_new(const Ids& ids, const char* what, std::string_view name);

  void check_tensor(std::string_view who, int id) const;

  /// Sets whether a node's outputs are differentiable.
  void derive_differentiable(const Node& node);

  Ids tensor_ids_;
  Ids node_ids_;
  Ids parameter_ids_;
  std::int64_t elements_ = 0;  // of all parameters
};

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/dag.ipp>
#endif
