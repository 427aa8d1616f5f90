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

/// A tensor from outside. Without an element it has that of the graph.
struct InputEntry {
  std::string name;
  Shape shape;
  std::optional<Element> element{};
  bool differentiable = false;
};

/// What a file says of a parameter, beside what the operator says.
struct ParameterEntry {
  std::string name{};  ///< of the graph's parameter; empty: "NODE.OWN NAME". Nodes that name the same share it
  std::optional<Init> init{};
};

/// One application of an operator.
struct NodeEntry {
  std::string place{};  ///< in the file, "nodes.3": for errors
  std::string name{};
  std::string kind{};
  io::Json attributes = io::Json::object();
  std::vector<std::string> inputs{};   ///< names of tensors
  std::vector<std::string> outputs{};  ///< names; empty: NODE, or NODE.0, NODE.1 of several
  std::map<std::string, ParameterEntry, std::less<>> parameters{};  ///< by the operator's own names
  std::optional<OperatorOptimizer> optimizer{};
};

/// A model as a file has it: names and numbers, and nothing of what its operators are.
struct ModelFile {
  std::vector<InputEntry> inputs;
  std::vector<NodeEntry> nodes;  ///< in topological order
  std::string loss;              ///< a tensor; empty: none
};

/// What a file may have at most.
inline constexpr std::size_t most_model_nodes = 10'000;
inline constexpr std::size_t most_model_inputs = 1'000;
inline constexpr std::size_t most_node_inputs = 1'000;
inline constexpr std::size_t most_model_name = 200;  ///< bytes
inline constexpr std::int64_t most_model_elements = std::int64_t{1} << 40;  ///< of a tensor or parameter

/// Reads all of a model that can be read without its operators. docs/graph_files.md has the format.
///
/// | order  | nodes may stand in any: each comes after those whose outputs it reads, and of those that may   |
/// |        | come next the first of the file                                                                 |
/// | errors | DecodeError with source, member, node and fix: an unknown key or input, a name twice, a cycle, |
/// |        | a value of another type, more than a file may have                                              |
/// | cost   | n log n, of the names                                                                            |
///
/// \code
/// const graph::ModelFile model = graph::read_model(io::read_json("gpt.json"), "gpt.json");
/// for (const graph::NodeEntry& node : model.nodes) static_cast<void>(node.kind);
/// \endcode
ModelFile read_model(const io::Json& json, std::string_view source);

/// The JSON of a model: read_model gives the same again.
io::Json json_of(const ModelFile& model);

/// That JSON as people read it: an input and a node a line.
std::string text_of_model(const io::Json& json);

/// Whether JSON is a model, and not a case of something else: its nodes have kinds.
bool is_model(const io::Json& json);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/model_file.ipp>
#endif
