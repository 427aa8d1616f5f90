#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/cores.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/model_file.hpp>
#include <reef/graph/registry.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A model's graph, and for each node the training options of its parameters, if the file gives any.
template <device::device Device, real T>
struct Model {
  Graph<Device, T> graph;
  std::vector<std::optional<OperatorOptimizer>> optimizers{};
};

namespace detail {

/// Returns the text of an error in a model file, preceded by the file and the node.
std::string in_place(std::string_view source, std::string_view place, std::string_view what);

/// Returns the id of the tensor of that name, which a node reads. Throws ShapeError if the node that writes the tensor
/// names its outputs otherwise.
int tensor_of(const Dag& dag, const std::string& name);

/// Throws ShapeError unless a file's entry names all outputs of the node or none, the node has parameters if the entry
/// has an optimizer, and each output and parameter has at most max_model_elements elements.
void require_sense(const NodeEntry& node, const Node& made);

/// Returns the initialisations that a model file gives for a node's parameters. Throws ShapeError for a parameter that
/// an earlier node uses already.
std::vector<std::pair<std::string, Init>> inits_of(const NodeEntry& node, const Dag& dag, int id);

/// Returns the ids of a node's parameters that a model file freezes. Throws ShapeError for one that an earlier node
/// uses.
std::vector<int> frozen_of(const NodeEntry& node, const Dag& dag, int id);

/// Returns the entry that describes a node of the graph in a model file, without its attributes.
NodeEntry entry_of(const Dag& dag, int id);

}  // namespace detail

/// Builds the model's graph that JSON describes, from operators of a registry. docs/graph_files.md describes the
/// format.
///
///     from_json(to_json(g)) equals g, and trains with the same bits
///
/// | T         | the element type of parameters, and of inputs for which the file gives none, so a file fits any |
/// | order     | nodes have the order of read_model, which decides dropout's random draws and initial parameters |
/// | optimizer | Model::optimizers: run::groups_of_operators turns them into parameter groups of a Trainer       |
/// | errors    | DecodeError with source, node and fix, as from read_model; also for an unknown kind or          |
/// |           | attribute, and for shapes that do not fit                                                       |
/// | cost      | allocates no memory whose size a number in the file decides                                     |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 3.2: a model as a file of operators.
///
/// \code
/// // given: const graph::Registry<device::Host, float>& registry
/// const auto model = graph::from_json(io::read_json("gpt.json"), "gpt.json", registry);
/// const std::int64_t weights = model.graph.dag().parameter_count();
/// \endcode
template <device::device Device, real T>
Model<Device, T> from_json(const io::Json& json, std::string_view source, const Registry<Device, T>& registry,
                           int threads = device::available_cores()) {
  const ModelFile file = read_model(json, source);
  Model<Device, T> model{Graph<Device, T>(threads)};
  Graph<Device, T>& graph = model.graph;
  for (const InputEntry& input : file.inputs) {
    try {
      graph.input(input.name, {input.shape, input.element.value_or(element_of<T>)}, input.differentiable);
    } catch (const ShapeError& error) {
      throw DecodeError(detail::in_place(source, "", error.what()));
    }
  }
  std::vector<int> frozen;
  for (const NodeEntry& node : file.nodes) {
    const auto& kind = registry.kind(node.kind, concat(source, ": ", node.place, ", ", in_quotes(node.name)));
    try {
      std::vector<int> inputs;
      for (const std::string& name : node.inputs) inputs.push_back(detail::tensor_of(graph.dag(), name));
      const std::vector<int> outputs = kind.add(graph, node, source, inputs);
      const int id = graph.dag().node_count() - 1;
      detail::require_sense(node, graph.dag().node_at(id));
      for (std::size_t o = 0; o < node.outputs.size(); ++o) graph.rename(outputs[o], node.outputs[o]);
      for (const auto& [parameter, init] : detail::inits_of(node, graph.dag(), id)) graph.initialise(parameter, init);
      for (const int parameter : detail::frozen_of(node, graph.dag(), id)) frozen.push_back(parameter);
    } catch (const DecodeError&) {
      throw;  // the error already states the place in the file
    } catch (const Error& error) {
      throw DecodeError(detail::in_place(source, concat(node.place, ", ", in_quotes(node.name)), error.what()));
    }
    model.optimizers.push_back(node.optimizer);
  }
  graph.freeze(frozen);
  try {
    if (!file.loss.empty()) graph.loss(detail::tensor_of(graph.dag(), file.loss));
  } catch (const ShapeError& error) {
    throw DecodeError(detail::in_place(source, "loss", error.what()));
  }
  return model;
}

/// Returns the JSON of a graph whose operators are in the registry. `optimizers` are the training options of nodes, by
/// node; a node without an entry has none in the file.
///
/// Throws OptionError for an operator that the registry does not have.
///
/// \code
/// // given: const graph::Graph<device::Host, float>& gpt, const graph::Registry<device::Host, float>& registry
/// const std::string text = graph::text_of_model(graph::to_json(gpt, registry));
/// \endcode
template <device::device Device, real T>
io::Json to_json(const Graph<Device, T>& graph, const Registry<Device, T>& registry,
                 const std::vector<std::optional<OperatorOptimizer>>& optimizers = {}) {
  const Dag& dag = graph.dag();
  ModelFile file;
  for (const int id : dag.inputs) {
    const Tensor& tensor = dag.tensor_at(id);
    InputEntry& input = file.inputs.emplace_back(InputEntry{tensor.name, tensor.spec.shape});
    if (tensor.spec.element != element_of<T>) input.element = tensor.spec.element;
    input.differentiable = tensor.differentiable;
  }
  for (int n = 0; n < dag.node_count(); ++n) {
    NodeEntry& node = file.nodes.emplace_back(detail::entry_of(dag, n));
    const auto& kinds = registry.kinds();
    const auto kind =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& known) { return known.name == node.kind; });
    node.attributes = kind == kinds.end() ? io::Json() : kind->attributes_of(graph, n);
    if (node.attributes.is_null()) {
      throw OptionError("reef::graph: the node '", node.name, "' is of kind ", node.kind,
                        ", which the registry does not have.\n  fix: registry.add<", node.kind, ">().");
    }
    if (static_cast<std::size_t>(n) < optimizers.size()) node.optimizer = optimizers[static_cast<std::size_t>(n)];
  }
  if (dag.loss >= 0) file.loss = dag.tensor_at(dag.loss).name;
  return json_of(file);
}

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/graph_json.ipp>
#endif
