#include "recipe_model.hpp"

#include <reef/graph/graph_json.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/lora.hpp>
#include <reef/nn/registry.hpp>

#include "../support/lora_text.hpp"

namespace reef_examples {

using namespace reef;

namespace {

graph::Graph<device::Host, float> base_model(const RecipeCase& asked) {
  if (!asked.has_graph()) return nn::gpt<device::Host, float>(asked.model, 1);
  return graph::from_json(*asked.graph, asked.graph_file, nn::registry<device::Host, float>(), 1).graph;
}

}  // namespace

graph::Graph<device::Host, float> build_model(const RecipeCase& asked) {
  graph::Graph<device::Host, float> model = base_model(asked);
  if (!asked.lora.empty()) model = nn::with_lora(model, lora_of(asked.lora));
  for (const std::string& pattern : asked.freeze) model.freeze(pattern);
  return model;
}

}  // namespace reef_examples
