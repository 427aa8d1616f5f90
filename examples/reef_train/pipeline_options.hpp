#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/gather.hpp>
#include <reef/profile/network.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/number_json.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/allocated_stages.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/fenced_stages.hpp>
#include <reef/run/topology.hpp>

#include "graph_model.hpp"
#include "options.hpp"
#include "setup.hpp"

// Which ranks hold which stages of recipes dtfm, fusion and reef, what of the model a stage is, and in which order those run.

namespace reef_examples {

inline constexpr reef::Bytes max_bytes_of_an_order = reef::Bytes{1} << 30;

/// Puts stages that talk much on ranks with good links. All ranks come to the same.
template <class TrainerType>
void place_stages(const Setup& run, const reef::profile::Network& links, reef::run::Topology& topology) {
  const auto model = model_of<typename TrainerType::Device, typename TrainerType::T>(run.options, run.config, run.threads);
  const reef::run::AllocatedStages found = reef::run::allocated_stages(
      model.dag(), topology, links, run.options.micro_batches, {.seed = run.options.seed, .effort = 4});
  topology = found.topology;
  run.say(reef::concat("stages: placed by the network; messages of a step take ", found.cost.total(), " s, with ranks in turn ",
                       found.cost_in_turn.total(), " s"));
}

/// What ranks differ in, where stages are laid out for it.
struct RanksDiffer {
  reef::run::RankFigures figures;
  std::vector<int> micro_batches;  ///< by rank
};

/// What ranks differ in: links of --network, speeds as reef-measure wrote them there, and --slow, --device-memory and
/// --micro-batches of each rank. Speed 1 is that of the fastest device of the case where there is a profile, else 1e9
/// operations a second, as run::node_times has it. All ranks call it.
inline RanksDiffer differences_of_ranks(const Setup& run, reef::comm::Progress& progress, const reef::profile::Network& emulated,
                                        double slowdown, bool has_profile) {
  const int ranks = run.ranks.size();
  RanksDiffer result;
  reef::run::RankFigures& figures = result.figures;
  figures.links = emulated.empty() ? reef::profile::Network::uniform(ranks, 0, reef::profile::Network::max_rate) : emulated;
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
  const auto slow = reef::comm::gather_numbers(progress, "slowdowns", slowdown);
  const auto memory = reef::comm::gather_numbers(progress, "memories", run.options.device_memory);
  for (std::size_t rank = 0; rank < slow.size(); ++rank) {
    figures.speeds[rank] /= slow[rank];
    figures.memories.push_back(memory[rank] > 0 ? memory[rank] : std::numeric_limits<reef::Bytes>::max());
  }
  result.micro_batches = reef::comm::gather_numbers(progress, "micro-batches", run.options.micro_batches);
  return result;
}

/// The topology in which ranks of much memory share stages, then those of as much that are fast, so that no stage has the
/// least of both. Within a stage ranks ascend with their replicas.
inline reef::run::Topology alike_together(const reef::run::Topology& given, const reef::run::RankFigures& figures) {
  std::vector<int> ranks(static_cast<std::size_t>(given.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    const auto i = static_cast<std::size_t>(a);
    const auto j = static_cast<std::size_t>(b);
    return std::pair(figures.memories[i], figures.speeds[i]) > std::pair(figures.memories[j], figures.speeds[j]);
  });
  reef::run::Topology result = given;
  result.rank_at.assign(ranks.size(), 0);
  for (int stage = 0; stage < given.stages; ++stage) {
    const auto begin = ranks.begin() + stage * given.replicas;
    std::sort(begin, begin + given.replicas);
    for (int replica = 0; replica < given.replicas; ++replica)
      result.rank_at[static_cast<std::size_t>(replica * given.stages + stage)] = *(begin + replica);
  }
  return result;
}

/// The layout of least time (run::fenced_stages), of those with these ranks in a stage.
inline reef::run::FencedStages least_fenced(const reef::graph::Dag& dag, const std::vector<reef::Seconds>& times,
                                            const std::vector<reef::run::Topology>& topologies, const RanksDiffer& ranks,
                                            const reef::run::StageNeeds& needs) {
  const int micro_batches = *std::max_element(ranks.micro_batches.begin(), ranks.micro_batches.end());
  std::optional<reef::run::FencedStages> best;
  for (std::size_t t = 0; t < topologies.size(); ++t) {
    try {
      auto found = reef::run::fenced_stages(dag, times, topologies[t], ranks.figures, micro_batches, needs);
      if (!best || found.time.pipelined < best->time.pipelined) best = std::move(found);
    } catch (const reef::OptionError&) {
      if (!best && t + 1 == topologies.size()) throw;
    }
  }
  return *best;
}

inline void tell_fenced(const Setup& run, const reef::run::FencedStages& found, const std::vector<double>& all_speeds, bool has_profile) {
  std::string speeds;
  for (const double speed : all_speeds) speeds += reef::concat(speeds.empty() ? "" : ", ", speed);
  run.say(reef::concat("stages: laid out for ranks of speed ", speeds, "; a step is planned to take ",
                       found.time.pipelined, " s",
                       has_profile ? "" : ", were speed 1 a GFLOP/s (--profile measures)"));
  std::string ranks;
  for (const int rank : found.spare) ranks += reef::concat(ranks.empty() ? "" : ", ", rank);
  if (ranks.empty()) return;
  run.say(reef::concat("stages: without rank(s) ", ranks, " it would take ", found.time_without,
                       " s; every rank has a stage, so start the job without them, or with more --micro-batches"));
}

/// Cuts the model so that uneven ranks and links are used as well as can be, once all else is set. What a stage needs is
/// what its rank would prove: each rank places its own part of a candidate, and tells the others. A stage that swaps
/// has room for any part, and the planner of that says where it has not. All ranks call it.
template <class TrainerType>
void fence_stages(const Setup& run, typename TrainerType::Options& options) {
  using Device = typename TrainerType::Device;
  reef::run::Topology& topology = *options.topology;
  std::vector<int> in_turn(static_cast<std::size_t>(topology.stages));
  std::iota(in_turn.begin(), in_turn.end(), 0);
  if (TrainerType::Pipeline::stage_of_chunk(topology.stages, options.pipeline) != in_turn) {
    throw reef::OptionError("--layout op-fence: the order has other chunks than one for each stage.\n"
                            "  why: a stage is to be one part of the model.\n"
                            "  fix: --layout balanced, or --pipeline 1f1b, gpipe, zb-h1 or another of one part a stage.");
  }
  reef::comm::ProgressOptions plain;
  plain.transport = reef::comm::Transport::messages;
  reef::comm::Progress progress(run.ranks, plain);
  auto model = model_of<Device, typename TrainerType::T>(run.options, run.config, run.threads);
  model.enlarge_workspaces(reef::comm::largest_of_ranks(progress, "workspaces", model.workspaces()));
  RanksDiffer ranks = differences_of_ranks(run, progress, options.communication.network, options.device.slowdown,
                                           options.profile.has_value());
  reef::run::StageNeeds needs;
  if constexpr (TrainerType::Swap::offloads_to_host) {
    ranks.figures.memories.clear();
  } else {
    needs = [&](const reef::run::Topology& candidate) {
      typename TrainerType::Options asked = options;
      asked.topology = candidate;
      std::vector<int> counts;
      for (int replica = 0; replica < candidate.replicas; ++replica)
        counts.push_back(ranks.micro_batches[static_cast<std::size_t>(candidate.rank(replica, 0))]);
      const reef::Bytes own =
          TrainerType::estimate(model, asked, run.ranks.size(), run.ranks.rank(), counts).device_bytes;
      return reef::comm::gather_numbers(progress, "needs of a layout", own);
    };
  }
  std::vector<reef::run::Topology> topologies{topology};
  if (run.options.place.empty() && topology.replicas > 1 && !ranks.figures.memories.empty())
    topologies.push_back(alike_together(topology, ranks.figures));
  const auto found = least_fenced(model.dag(), reef::run::node_times(model.dag(), options.profile ? &*options.profile : nullptr),
                                  topologies, ranks, needs);
  topology = found.topology;
  tell_fenced(run, found, ranks.figures.speeds, options.profile.has_value());
}

/// Whether the stages of a run are laid out by op-fence.
inline bool fences(const Setup& run) { return run.options.layout == "op-fence" && run.ranks.size() > 1; }

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
        reef::io::read_file(options.order, max_bytes_of_an_order), options.order);
  }
  const reef::profile::Network& emulated = result.communication.network;
  if (ranks == 1 || emulated.empty()) return;
  // Of one replica op-fence orders the ranks itself.
  if (options.place.empty() && (!fences(run) || stages < ranks)) place_stages<TrainerType>(run, emulated, *result.topology);
  result.network = emulated.without_uplinks();  // Searched knows links alone
}

}  // namespace reef_examples
