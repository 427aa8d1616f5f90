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

/// An input: a tensor from outside. Without an element it has the graph's element type.
struct InputEntry {
  std::string name;
  Shape shape;
  std::optional<Element> element{};
  bool differentiable = false;
};

/// The entry of a parameter in a file, in addition to its operator's ParameterSpec.
struct ParameterEntry {
  std::string name{};  ///< the parameter's name in the graph; empty: "NODE.OWN NAME". Nodes with one name share it
  std::optional<Init> init{};
  bool frozen = false;  ///< the parameter keeps its values (Graph::freeze); said where it is used first
};

/// The entry of a node in a file: one application of an operator.
struct NodeEntry {
  std::string place{};  ///< the place in the file, such as "nodes.3": for errors
  std::string name{};
  std::string kind{};
  io::Json attributes = io::Json::object();
  std::vector<std::string> inputs{};   ///< names of tensors
  std::vector<std::string> outputs{};  ///< names of the outputs; empty: NODE, or NODE.0, NODE.1 if there are several
  std::map<std::string, ParameterEntry, std::less<>> parameters{};  ///< the parameters, by the operator's own names
  std::optional<OperatorOptimizer> optimizer{};
};

/// A model as a file has it: names and numbers, without knowledge of its operators.
struct ModelFile {
  std::vector<InputEntry> inputs;
  std::vector<NodeEntry> nodes;  ///< in topological order
  std::string loss;              ///< the name of the loss's tensor; empty: none
};

/// The limits of a file: the most nodes, inputs, and inputs of a node; of names and tensors see each.
inline constexpr std::size_t most_model_nodes = 10'000;
inline constexpr std::size_t most_model_inputs = 1'000;
inline constexpr std::size_t most_node_inputs = 1'000;
inline constexpr std::size_t most_model_name = 200;  ///< the most bytes of a name
inline constexpr std::int64_t most_model_elements = std::int64_t{1} << 40;  ///< the most of a tensor or parameter

/// Reads all parts of a model that can be read without its operators. docs/graph_files.md has the format.
///
/// | order  | a file may list nodes in any order; they are sorted: each comes after those whose outputs it   |
/// |        | reads, and of the nodes that may come next the first in the file is taken                      |
/// | errors | DecodeError with source, member, node and fix: an unknown key or input, a name twice, a cycle, |
/// |        | a value of another type, more than a file may have                                             |
/// | cost   | O(n log n) in the names                                                                        |
///
/// \code
/// const graph::ModelFile model = graph::read_model(io::read_json("gpt.json"), "gpt.json");
/// for (const graph::NodeEntry& node : model.nodes) static_cast<void>(node.kind);
/// \endcode
ModelFile read_model(const io::Json& json, std::string_view source);

/// Returns the JSON of a model, from which read_model returns an equal model.
io::Json json_of(const ModelFile& model);

/// Returns the JSON of a model as text for people: one line for each input and each node.
std::string text_of_model(const io::Json& json);

/// Returns true if JSON is a model, and not a case of something else: its nodes have kinds.
bool is_model(const io::Json& json);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/model_file.ipp>
#endif
