#include "recipe_model.hpp"

#include <reef/graph/graph_json.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/registry.hpp>

namespace reef_examples {

using namespace reef;

graph::Graph<device::Host, float> build_model(const RecipeCase& asked) {
  if (!asked.has_graph()) return nn::gpt<device::Host, float>(asked.model, 1);
  return graph::from_json(*asked.graph, asked.graph_file, nn::registry<device::Host, float>(), 1).graph;
}

}  // namespace reef_examples
