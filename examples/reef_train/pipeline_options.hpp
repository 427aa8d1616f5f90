#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/comm/network_shape.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/file.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/allocation_cost.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/run/topology.hpp>
#include <reef/schedule/world.hpp>

#include "options.hpp"
#include "setup.hpp"

// Which ranks hold which stages of recipe dtfm, and in which order those run.

namespace reef_examples {

inline constexpr reef::Bytes most_bytes_of_an_order = reef::Bytes{1} << 30;

inline reef::profile::Network network_of(const reef::comm::NetworkShape& shape) {
  reef::profile::Network network{shape.ranks(), {}, {}, {}};
  for (int from = 0; from < shape.ranks(); ++from) {
    for (int to = 0; to < shape.ranks(); ++to) {
      network.latencies.push_back(from == to ? 0 : shape.latency(from, to));
      network.rates.push_back(from == to ? 1e18 : std::min(shape.bandwidth(from, to), 1e18));
    }
  }
  return network;
}

inline reef::schedule::World world_of(const reef::profile::Network& network) {
  reef::schedule::World world = reef::schedule::World::uniform(network.devices, {}, {});
  for (std::size_t l = 0; l < world.links.size(); ++l) {
    world.links[l] = {network.latencies[l], network.rates[l]};
  }
  return world;
}

/// Puts stages that talk much on ranks with good links (plan::allocate). All ranks come to the same.
inline void place_stages(const Setup& run, const reef::profile::Network& network,
                         reef::run::Topology& topology) {
  const auto& config = run.config;
  const double channels = static_cast<double>(config.channels);
  reef::plan::AllocationProblem problem;
  problem.network = network;
  problem.stages = topology.stages;
  problem.pipelines = topology.replicas;
  problem.activation_bytes = 4.0 * run.options.micro_batches * static_cast<double>(config.batch) *
                             static_cast<double>(config.context) * channels;
  // Twelve times the square of the channels is what a layer of a GPT has.
  problem.gradient_bytes =
      4.0 * 12 * channels * channels * static_cast<double>(config.layers) / topology.stages;
  const reef::plan::Allocation found = reef::plan::allocate(problem, {.seed = run.options.seed, .effort = 4});
  topology.rank_at.clear();
  for (const auto& pipeline : found.sigma) {
    topology.rank_at.insert(topology.rank_at.end(), pipeline.begin(), pipeline.end());
  }
  const reef::plan::Placement in_turn = [&] {
    reef::plan::Placement placement(static_cast<std::size_t>(topology.replicas));
    for (int rank = 0; rank < topology.ranks(); ++rank) {
      placement[static_cast<std::size_t>(rank / topology.stages)].push_back(rank);
    }
    return placement;
  }();
  run.say(reef::concat("stages: placed by the network; messages of a step take ", found.cost.total(), " s, with ranks in turn ",
                       reef::plan::allocation_cost(problem, in_turn).total(), " s"));
}

template <class Options>
void set_pipeline(const Setup& run, Options& result) {
  const TrainOptions& options = run.options;
  const int ranks = run.ranks.size();
  const int stages = options.stages > 0 ? options.stages : ranks;
  if (ranks % stages != 0) {
    throw reef::OptionError("--stages ", stages, " on ", ranks,
                            " ranks.\n  why: every replica of the model has as many.\n"
                            "  fix: a divisor of the ranks, or another number of ranks.");
  }
  result.topology = reef::run::Topology(ranks / stages, stages);
  if (options.order.empty()) {
    result.pipeline.schedule = options.pipeline;
    result.pipeline.micro_batches_per_update = options.micro_batches_per_update;
  } else {
    result.pipeline.order = reef::plan::parse_pipeline_order(
        reef::io::read_file(options.order, most_bytes_of_an_order), options.order);
  }
  const reef::comm::NetworkShape& shape = result.communication.network;
  if (shape.empty() || ranks == 1) return;
  const reef::profile::Network network = network_of(shape);
  place_stages(run, network, *result.topology);
  result.pipeline.network = world_of(network);
}

}  // namespace reef_examples
