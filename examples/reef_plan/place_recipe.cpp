#include <cstddef>
#include <utility>
#include <vector>

#include <reef/graph/estimate.hpp>
#include <reef/graph/placed_dag.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/topology.hpp>

#include "commands.hpp"
#include "foreseen.hpp"
#include "recipe_case.hpp"
#include "recipe_model.hpp"

namespace reef_examples {

using namespace reef;

graph::PlacedDag place_recipe(const PlanCase& test) {
  const RecipeCase asked = read_case(test.json, test.file, CaseOf::simulate);
  const graph::Dag dag = build_model(asked).dag();
  const profile::Profile profile = graph::estimate(dag, graph::Speed{asked.flops, asked.memory_rate, asked.link});
  const std::vector<Seconds> times = run::node_times(dag, &profile);
  run::Topology topology(asked.ranks / asked.stages, asked.stages);
  topology.rank_at = asked.rank_at;
  if (is_spread(asked.recipe) && asked.pipeline != "searched") {
    topology.stage_of_chunk = plan::pipeline_order_of(asked.pipeline, asked.stages, 1).rank_of_chunk;
  }
  if (asked.layout == "op-fence" && asked.ranks > 1) {
    topology = recipe_named(asked.recipe, test.file).topology(asked, test.file);
  }
  const std::vector<int> bounds = topology.bounds.empty() ? run::chunk_bounds(dag, times, topology.chunks()) : topology.bounds;
  graph::PlacedDag placed{dag, asked.ranks, {}};
  for (std::size_t chunk = 0; chunk + 1 < bounds.size(); ++chunk) {
    const int stage = topology.stage_of_chunk.empty() ? static_cast<int>(chunk) : topology.stage_of_chunk[chunk];
    placed.rank_of_node.insert(placed.rank_of_node.end(), static_cast<std::size_t>(bounds[chunk + 1] - bounds[chunk]), topology.rank(0, stage));
  }
  return placed;
}

}  // namespace reef_examples
