#pragma once

#include <reef/core/inline.hpp>
#include <reef/graph/graph_json.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

REEF_INLINE std::string in_place(std::string_view source, std::string_view place, std::string_view what) {
  const std::size_t colon = what.find(": ");
  const bool is_named = what.starts_with("reef::") && colon != std::string_view::npos;
  return concat("reef::graph: ", source, place.empty() ? "" : ": ", place, ": ",
                is_named ? what.substr(colon + 2) : what);
}

REEF_INLINE int tensor_of(const Dag& dag, const std::string& name) {
  for (std::size_t id = 0; id < dag.tensors.size(); ++id) {
    if (dag.tensors[id].name == name) return static_cast<int>(id);
  }
  // The node that the name begins with is there: read_model has seen to that.
  const std::string node_name = name.substr(0, name.rfind('.'));
  for (const Node& node : dag.nodes) {
    if (node.name != name && node.name != node_name) continue;
    std::string outputs;
    for (const int id : node.outputs) {
      outputs += concat(outputs.empty() ? "" : ", ", in_quotes(dag.tensor_at(id).name));
    }
    throw ShapeError("reef::graph: ", in_quotes(name), " is no output of the node '", node.name, "' of kind ",
                     node.kind, ".\n  fix: ", outputs.empty() ? "it has none" : outputs, ".");
  }
  throw ShapeError("reef::graph: there is no tensor ", in_quotes(name), ".\n  fix: the name of one.");
}

REEF_INLINE void require_sense(const NodeEntry& node, const Node& made) {
  const auto require_size = [&](const char* what, std::string_view name, const Shape& shape) {
    if (shape.size() <= max_model_elements) return;
    throw ShapeError("reef::graph: the node '", node.name, "' of kind ", node.kind, " has the ", what, " ",
                     in_quotes(name), " ", shape.text(), ", more than 2^40 elements.\n  fix: a smaller model.");
  };
  for (const TensorSpec& output : made.signature.outputs) require_size("output", node.name, output.shape);
  for (const ParameterSpec& parameter : made.signature.parameters)
    require_size("parameter", parameter.name, parameter.shape);
  if (node.optimizer && made.uses.empty()) {
    throw ShapeError("reef::graph: the node '", node.name, "' of kind ", node.kind,
                     " has an optimizer, and no parameters.\n  fix: leave 'optimizer' out.");
  }
  if (node.outputs.empty() || node.outputs.size() == made.outputs.size()) return;
  throw ShapeError("reef::graph: the node '", node.name, "' of kind ", node.kind, " has ", made.outputs.size(),
                   " outputs, and ", node.outputs.size(),
                   " names for them.\n  fix: a name for each, or leave 'outputs' out.");
}

REEF_INLINE std::vector<std::pair<std::string, Init>> inits_of(const NodeEntry& node, const Dag& dag, int id) {
  std::vector<std::pair<std::string, Init>> inits;
  for (const int use : dag.node_at(id).uses) {
    const Parameter& parameter = dag.parameter_at(dag.use_at(use).parameter);
    const std::string& own = dag.node_at(id).signature.parameters[static_cast<std::size_t>(dag.use_at(use).slot)].name;
    const auto entry = node.parameters.find(own);
    if (entry == node.parameters.end() || !entry->second.init) continue;
    if (parameter.uses.front() != use) {
      throw ShapeError("reef::graph: the node '", node.name, "' says how the parameter '", parameter.name,
                       "' begins, which the node '", dag.node_at(dag.use_at(parameter.uses.front()).node).name,
                       "' has too.\n  fix: 'init' there, where it is used first.");
    }
    inits.emplace_back(parameter.name, *entry->second.init);
  }
  return inits;
}

REEF_INLINE std::vector<int> frozen_of(const NodeEntry& node, const Dag& dag, int id) {
  std::vector<int> frozen;
  for (const int use : dag.node_at(id).uses) {
    const std::string& own = dag.node_at(id).signature.parameters[static_cast<std::size_t>(dag.use_at(use).slot)].name;
    const auto entry = node.parameters.find(own);
    if (entry == node.parameters.end() || !entry->second.frozen) continue;
    const Parameter& parameter = dag.parameter_at(dag.use_at(use).parameter);
    if (parameter.uses.front() != use) {
      throw ShapeError("reef::graph: the node '", node.name, "' says that the parameter '", parameter.name,
                       "' is frozen, which the node '", dag.node_at(dag.use_at(parameter.uses.front()).node).name,
                       "' has too.\n  fix: 'frozen' there, where it is used first.");
    }
    frozen.push_back(dag.use_at(use).parameter);
  }
  return frozen;
}

REEF_INLINE NodeEntry entry_of(const Dag& dag, int id) {
  const Node& from = dag.node_at(id);
  NodeEntry node;
  node.name = from.name;
  node.kind = from.kind;
  for (const int input : from.inputs) node.inputs.push_back(dag.tensor_at(input).name);
  bool renamed = false;
  for (std::size_t o = 0; o < from.outputs.size(); ++o) {
    node.outputs.push_back(dag.tensor_at(from.outputs[o]).name);
    renamed = renamed || node.outputs.back() != (from.outputs.size() == 1 ? node.name : concat(node.name, ".", o));
  }
  if (!renamed) node.outputs.clear();
  for (const int use : from.uses) {
    const Parameter& parameter = dag.parameter_at(dag.use_at(use).parameter);
    const ParameterSpec& own = from.signature.parameters[static_cast<std::size_t>(dag.use_at(use).slot)];
    ParameterEntry entry;
    if (parameter.name != concat(node.name, ".", own.name)) entry.name = parameter.name;
    if (parameter.uses.front() == use && parameter.init != own.init) entry.init = parameter.init;
    entry.frozen = parameter.uses.front() == use && parameter.frozen;
    if (!entry.name.empty() || entry.init || entry.frozen) node.parameters[own.name] = std::move(entry);
  }
  return node;
}

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
