#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/shape.hpp>
#include <reef/graph/operator_optimizer.hpp>
#include <reef/graph/signature.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// An input of a model in a file: a tensor whose values the caller gives. Without `element` it has the graph's element
/// type.
struct InputEntry {
  std::string name;
  Shape shape;
  std::optional<Element> element{};
  bool differentiable = false;
};

/// A parameter in a model file: what the file says in addition to the operator's ParameterSpec.
struct ParameterEntry {
  /// Name of the parameter in the graph, which nodes share by giving the same name; empty: "NODE.OWN NAME".
  std::string name{};
  std::optional<Init> init{};
  bool frozen = false;  ///< true: the parameter keeps its values (Graph::freeze); given by the first node that uses it
};

/// A node in a model file: one application of an operator.
struct NodeEntry {
  std::string place{};  ///< place of the entry in the file, such as "nodes.3", for error messages
  std::string name{};
  std::string kind{};
  io::Json attributes = io::Json::object();
  std::vector<std::string> inputs{};   ///< names of the tensors that the node reads
  /// Names of the node's outputs; empty: NODE, or NODE.0, NODE.1 if there are several.
  std::vector<std::string> outputs{};
  /// Parameters of the node, by the operator's own names.
  std::map<std::string, ParameterEntry, std::less<>> parameters{};
  std::optional<OperatorOptimizer> optimizer{};
};

/// The contents of a model file: names and numbers, not yet checked against the model's operators.
struct ModelFile {
  std::vector<InputEntry> inputs;
  std::vector<NodeEntry> nodes;  ///< nodes of the graph, in topological order
  std::string loss;              ///< the name of the tensor that is the loss; empty: the model has no loss
};

/// The limits of a model file: the largest number of nodes, of inputs, and of inputs of one node.
inline constexpr std::size_t max_model_nodes = 10'000;
inline constexpr std::size_t max_model_inputs = 1'000;
inline constexpr std::size_t max_node_inputs = 1'000;
inline constexpr std::size_t max_model_name = 200;  ///< the largest number of bytes of a name in a model file
/// The most elements of any one tensor in a model file.
inline constexpr std::int64_t max_model_elements = std::int64_t{1} << 40;

/// Reads those parts of a model that do not depend on its operators. docs/graph_files.md describes the format.
///
/// | order  | a file may list nodes in any order; they are sorted: each node comes after the nodes whose     |
/// |        | outputs it reads; of the nodes that could come next, the first in the file does                |
/// | errors | DecodeError with source, member, node and fix: an unknown key or input, a duplicate name, a    |
/// |        | cycle, a value of a wrong type, a limit that is exceeded                                       |
/// | cost   | O(n log n) for n names                                                                         |
///
/// \code
/// const graph::ModelFile model = graph::read_model(io::read_json("gpt.json"), "gpt.json");
/// for (const graph::NodeEntry& node : model.nodes) static_cast<void>(node.kind);
/// \endcode
ModelFile read_model(const io::Json& json, std::string_view source);

/// Returns the JSON of a model, from which read_model returns an equal model.
io::Json json_of(const ModelFile& model);

/// Returns the JSON of a model as readable text: one line for each input and each node.
std::string text_of_model(const io::Json& json);

/// Returns true if JSON is a model file, whose nodes have kinds, and not the case file of placed_dag_from_json.
bool is_model(const io::Json& json);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/model_file.ipp>
#endif
