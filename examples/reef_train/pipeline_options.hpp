#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <reef/comm/gather.hpp>
#include <reef/comm/network_shape.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/allocation_cost.hpp>
#include <reef/plan/number_json.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/fenced_stages.hpp>
#include <reef/run/topology.hpp>
#include <reef/schedule/world.hpp>

#include "graph_model.hpp"
#include "options.hpp"
#include "setup.hpp"

// Which ranks hold which stages of recipes dtfm, fusion and reef, what of the model a stage is, and in which order those run.

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
  const double micro_batches = run.options.micro_batches;
  reef::plan::AllocationProblem problem;
  problem.network = network;
  problem.stages = topology.stages;
  problem.pipelines = topology.replicas;
  problem.activation_bytes =
      4.0 * micro_batches * static_cast<double>(config.batch) * static_cast<double>(config.context) * channels;
  // Twelve times the square of the channels is what a layer of a GPT has.
  problem.gradient_bytes =
      4.0 * 12 * channels * channels * static_cast<double>(config.layers) / topology.stages;
  if (!run.options.graph.empty()) {
    const auto model = graph_model<reef::device::Host, float>(run.options, 1);
    const reef::graph::Dag& dag = model.graph.dag();
    const std::vector<reef::Bytes> crossing = reef::graph::crossing_bytes(dag);
    reef::Bytes most = 0;
    for (const int node : reef::run::chunk_bounds(dag, reef::run::node_times(dag, nullptr), topology.stages)) {
      most = std::max(most, crossing[static_cast<std::size_t>(node)]);
    }
    problem.activation_bytes = micro_batches * static_cast<double>(most);
    problem.gradient_bytes = 4.0 * static_cast<double>(dag.parameter_count()) / topology.stages;
  }
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

/// What ranks differ in: links of --network, speeds as reef-measure wrote them there, and --slow and --device-memory of
/// each rank. Speed 1 is that of the fastest device of the case where there is a profile, else 1e9 operations a second,
/// as run::node_times has it. All ranks call it.
inline reef::run::RankFigures figures_of_ranks(const Setup& run, const reef::comm::NetworkShape& shape,
                                               double slowdown, bool has_profile) {
  const int ranks = run.ranks.size();
  reef::run::RankFigures figures;
  figures.links = shape.empty() ? network_of(reef::comm::NetworkShape::uniform(ranks, 0, 1e18)) : network_of(shape);
  figures.speeds.assign(static_cast<std::size_t>(ranks), 1);
  if (!run.options.network.empty()) {
    const reef::io::Json json = reef::io::read_json(run.options.network);
    const char* const key = json.contains("model_flops") ? "model_flops" : "device_flops";
    if (json.contains(key)) {
      std::vector<double> rates = reef::plan::numbers_from_json(json, key, 1e3, 1e18, run.options.network);
      if (rates.size() < figures.speeds.size()) {
        throw reef::DecodeError(run.options.network, ": ", key, " has ", rates.size(), " numbers for ", ranks,
                                " ranks.\n  fix: one for each.");
      }
      rates.resize(figures.speeds.size());
      const double one = has_profile ? *std::max_element(rates.begin(), rates.end()) : 1e9;
      for (std::size_t rank = 0; rank < rates.size(); ++rank) figures.speeds[rank] = rates[rank] / one;
    }
  }
  reef::comm::ProgressOptions plain;
  plain.transport = reef::comm::Transport::messages;
  reef::comm::Progress progress(run.ranks, plain);
  const auto slow = reef::comm::gather_numbers(progress, "slowdowns", slowdown);
  const auto memory = reef::comm::gather_numbers(progress, "memories", run.options.device_memory);
  for (std::size_t rank = 0; rank < slow.size(); ++rank) {
    figures.speeds[rank] /= slow[rank];
    figures.memories.push_back(memory[rank] > 0 ? memory[rank] : std::numeric_limits<reef::Bytes>::max());
  }
  return figures;
}

/// Cuts the model so that uneven ranks and links are used as well as can be (run::fenced_stages).
inline void fence_stages(const Setup& run, const reef::graph::Dag& dag, const reef::profile::Profile* profile,
                         const reef::run::RankFigures& figures, reef::run::Topology& topology) {
  const reef::run::FencedStages found = reef::run::fenced_stages(
      dag, reef::run::node_times(dag, profile), topology, figures, run.options.micro_batches);
  topology = found.topology;
  std::string speeds;
  for (const double speed : figures.speeds) speeds += reef::concat(speeds.empty() ? "" : ", ", speed);
  run.say(reef::concat("stages: laid out for ranks of speed ", speeds, "; a step is planned to take ",
                       found.time.pipelined, " s",
                       profile == nullptr ? ", were speed 1 a GFLOP/s (--profile measures)" : ""));
  std::string ranks;
  for (const int rank : found.spare) ranks += reef::concat(ranks.empty() ? "" : ", ", rank);
  if (ranks.empty()) return;
  run.say(reef::concat("stages: without rank(s) ", ranks, " it would take ", found.time_without,
                       " s; every rank has a stage, so start the job without them, or with more --micro-batches"));
}

template <class TrainerType>
void set_pipeline(const Setup& run, typename TrainerType::Options& result) {
  const TrainOptions& options = run.options;
  const int ranks = run.ranks.size();
  const int stages = options.stages > 0 ? options.stages : ranks;
  if (ranks % stages != 0) {
    throw reef::OptionError("--stages ", stages, " on ", ranks,
                            " ranks.\n  why: every replica of the model has as many.\n"
                            "  fix: a divisor of the ranks, or another number of ranks.");
  }
  result.topology = reef::run::Topology(ranks / stages, stages);
  result.topology->rank_at = options.place;
  result.pipeline.unit = options.unit;
  if (options.order.empty()) {
    result.pipeline.schedule = options.pipeline;
    result.pipeline.micro_batches_per_update = options.micro_batches_per_update;
  } else {
    result.pipeline.order = reef::plan::parse_pipeline_order(
        reef::io::read_file(options.order, most_bytes_of_an_order), options.order);
  }
  if (ranks == 1) return;
  const bool fences = options.layout == "op-fence";
  const reef::comm::NetworkShape& shape = result.communication.network;
  if (!shape.empty()) {
    const reef::profile::Network network = network_of(shape);
    // Of one replica op-fence orders the ranks itself.
    if (options.place.empty() && (!fences || stages < ranks)) place_stages(run, network, *result.topology);
    result.pipeline.network = world_of(network);
  }
  if (!fences) return;
  std::vector<int> in_turn(static_cast<std::size_t>(stages));
  std::iota(in_turn.begin(), in_turn.end(), 0);
  if (TrainerType::Pipeline::stage_of_chunk(stages, result.pipeline) != in_turn) {
    throw reef::OptionError("--layout op-fence: the order has other chunks than one for each stage.\n"
                            "  why: a stage is to be one part of the model.\n"
                            "  fix: --layout balanced, or --pipeline 1f1b, gpipe, zb-h1 or another of one part a stage.");
  }
  const auto model = model_of<typename TrainerType::Device, typename TrainerType::T>(options, run.config, run.threads);
  const reef::profile::Profile* const profile = result.profile ? &*result.profile : nullptr;
  fence_stages(run, model.dag(), profile, figures_of_ranks(run, shape, result.device.slowdown, profile != nullptr),
               *result.topology);
}

}  // namespace reef_examples
