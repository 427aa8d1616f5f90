#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/graph_json.hpp>
#include <reef/graph/placed_dag.hpp>
#include <reef/graph/sub_dags.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/registry.hpp>
#include <reef/run/chunk_bounds.hpp>

#include "../support/number_option.hpp"
#include "commands.hpp"

namespace reef_examples {

namespace {

using namespace reef;

/// Where the operators of a model are to be.
struct Places {
  int stages = 0;                  // 0: not given
  std::vector<std::string> first;  // operators with which the ranks after the first begin
  std::vector<int> of_node;
  bool table = false;
};

/// The rank of each node, of stages that begin at these nodes.
std::vector<int> places_between(const std::vector<int>& bounds) {
  std::vector<int> places;
  for (std::size_t stage = 0; stage + 1 < bounds.size(); ++stage) {
    places.insert(places.end(), static_cast<std::size_t>(bounds[stage + 1] - bounds[stage]), static_cast<int>(stage));
  }
  return places;
}

std::vector<int> bounds_at(const graph::Dag& dag, const std::vector<std::string>& first) {
  std::vector<int> bounds{0};
  for (const std::string& name : first) {
    const auto found = std::find_if(dag.nodes.begin(), dag.nodes.end(), [&](const graph::Node& node) { return node.name == name; });
    const int node = static_cast<int>(found - dag.nodes.begin());
    if (found == dag.nodes.end() || node <= bounds.back()) {
      throw OptionError("--cut: ", in_quotes(name), found == dag.nodes.end() ? " is no operator of the model" : " does not come after the one before",
                        ".\n  fix: operators in the order of the model, and not its first, ", in_quotes(dag.nodes.front().name), ".");
    }
    bounds.push_back(node);
  }
  bounds.push_back(dag.node_count());
  return bounds;
}

/// A model of a file, on the ranks that the options say.
graph::PlacedDag place_model(const PlanCase& test, const Places& places) {
  const auto model = graph::from_json(test.json, test.file, nn::registry<device::Host, float>(), 1);
  graph::PlacedDag placed{model.graph.dag(), 1, places.of_node};
  const graph::Dag& dag = placed.dag;
  if (!placed.rank_of_node.empty()) {
    if (placed.rank_of_node.size() != dag.nodes.size()) {
      throw OptionError("--place has ", placed.rank_of_node.size(), " ranks, and the model has ", dag.nodes.size(), " operators.\n  fix: one for each.");
    }
  } else {
    const int stages = std::max(places.stages, 1);
    placed.rank_of_node = places_between(places.first.empty() ? run::chunk_bounds(dag, run::node_times(dag, nullptr), stages)
                                                              : bounds_at(dag, places.first));
  }
  placed.ranks = 1 + *std::max_element(placed.rank_of_node.begin(), placed.rank_of_node.end());
  return placed;
}

graph::PlacedDag place(const PlanCase& test, const Places& places) {
  if (graph::is_model(test.json)) return place_model(test, places);
  if (places.stages > 0 || !places.first.empty() || !places.of_node.empty()) {
    throw OptionError("--stages, --cut and --place are of a model's file, but ", test.file, " says itself where its operators are.\n  fix: leave them out.");
  }
  if (!test.json.contains("recipe")) return graph::placed_dag_from_json(test.json, test.file);
#ifdef REEF_PLAN_HAS_RECIPES
  return place_recipe(test);
#else
  throw OptionError("reef-plan: ", test.file, " names a recipe, but this reef-plan was built without recipes.\n"
                    "  fix: build it where CMake finds an MPI and a BLAS.");
#endif
}

io::Json json_of(const graph::Dag& dag, const graph::SubDagMessages& messages, bool tensors) {
  const auto list = [&](const std::vector<graph::RemoteMessage>& of, const char* other, int graph::RemoteMessage::*rank) {
    io::Json all = io::Json::array();
    for (const graph::RemoteMessage& m : of) {
      all.push_back({{tensors ? "tensor" : "parameter", tensors ? dag.tensor_at(m.of).name : dag.parameter_at(m.of).name},
                     {other, m.*rank},
                     {"bytes", m.bytes}});
    }
    return all;
  };
  return {{"receives", list(messages.receives, "from", &graph::RemoteMessage::from)},
          {"sends", list(messages.sends, "to", &graph::RemoteMessage::to)}};
}

io::Json json_of(const graph::Dag& dag, const graph::SubDag& part) {
  io::Json json{{"rank", part.place},
                {"operators", io::Json::array()},
                {"inputs", io::Json::array()},
                {"parameters", io::Json::array()},
                {"parameter_bytes", part.parameter_bytes},
                {"forward_flops", part.forward_flops},
                {"backward_flops", part.backward_flops},
                {"forward", json_of(dag, part.forward, true)},
                {"backward", json_of(dag, part.backward, true)},
                {"tied_gradients", json_of(dag, part.gradients, false)},
                {"tied_weights", json_of(dag, part.weights, false)}};
  for (const int n : part.nodes) json["operators"].push_back(dag.node_at(n).name);
  for (const int id : part.inputs) json["inputs"].push_back(dag.tensor_at(id).name);
  for (const int id : part.parameters) json["parameters"].push_back(dag.parameter_at(id).name);
  return json;
}

}  // namespace

void add_sub_dags(Commands& commands) {
  static Places places;
  CLI::App* const command = commands.add(
      "sub-dags",
      "what each rank holds of a model, and what it receives and sends (FusionLLM's sub-DAGs).\n"
      "CASE: a model's file (docs/graph_files.md), cut by --stages, --cut or --place; or a case of messages; or a recipe's, "
      "as of simulate: the ranks of its first replica.\n"
      "The answer: by rank its operators, inputs, parameters and operations; the tensors (forward) and gradients (backward) that it "
      "receives and sends for a micro-batch; and, once a step, gradients and weights of parameters that several ranks use",
      "gpt.json --stages 2 --table", [](const PlanCase& test) -> io::Json {
        const graph::PlacedDag model = place(test, places);
        auto parts = graph::sub_dags(model.dag, model.rank_of_node, model.ranks);
        std::erase_if(parts, [](const graph::SubDag& part) { return part.nodes.empty(); });
        if (places.table) return graph::text_of_sub_dags(model.dag, parts);
        io::Json answer{{"ranks", io::Json::array()}};
        for (const graph::SubDag& part : parts) answer["ranks"].push_back(json_of(model.dag, part));
        return answer;
      });
  CLI::Option* const stages =
      command->add_option("--stages", places.stages, "ranks, of which the slowest has as little to do as can be, as reef-train lays them out; default: 1")
          ->transform(number_from<int>(1, 10'000));
  CLI::Option* const cut =
      command->add_option("--cut", places.first, "operators with which the second and further ranks begin, NAME,NAME,...")->delimiter(',');
  command->add_option_function<std::string>("--place", [](const std::string& text) { places.of_node = numbers_of<int>(text); },
                                            "the rank of each operator, R,R,..., in the order of the model")
      ->transform(numbers_from<int>(0, 9'999))
      ->excludes(stages)
      ->excludes(cut);
  cut->excludes(stages);
  command->add_flag("--table", places.table, "a table for people instead of JSON");
}

}  // namespace reef_examples
