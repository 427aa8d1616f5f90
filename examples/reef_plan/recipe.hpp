#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <reef/codec/chosen.hpp>
#include <reef/compress/channels.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/fenced_stages.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trainer/trainer.hpp>

#include "foreseen.hpp"
#include "recipe_case.hpp"
#include "recipe_model.hpp"

// What a Trainer says of a step before it is made. Each recipe is one, compiled in the file of its family.

namespace reef_examples {

/// The codecs that a case names.
using AnyCodec = reef::compress::Channels<
    reef::compress::Activation<reef::codec::Chosen>, reef::compress::ActivationGradient<reef::codec::Chosen>,
    reef::compress::Gradient<reef::codec::Chosen>, reef::compress::Parameter<reef::codec::Chosen>>;

/// Stages as reef-train lays them out for ranks that differ in links alone. `needs`: none where memory is no bound.
inline reef::run::Topology fenced(const reef::graph::Dag& dag, const reef::profile::Profile& profile,
                                  const reef::run::Topology& topology, const RecipeCase& asked, int micro_batches,
                                  const reef::run::StageNeeds& needs) {
  const auto ranks = static_cast<std::size_t>(asked.ranks);
  reef::run::RankFigures figures;
  figures.links = asked.links();
  figures.speeds.assign(ranks, 1);
  if (needs) figures.memories.assign(ranks, asked.memory);
  return reef::run::fenced_stages(dag, reef::run::node_times(dag, &profile), topology, figures, micro_batches, needs).topology;
}

/// The bytes and operations of a step, by name.
reef::io::Json answer_of(const reef::StepEstimate& step, const RecipeCase& asked);

/// A recipe's Trainer, which is not made: what its static members say.
template <class... Policies>
class RecipeOf {
  using Asked = reef::Trainer<Policies...>;
  using Options = typename Asked::Options;
  using Model = typename Asked::Model;

public:
  RecipeOf(const RecipeCase& asked, const std::string& file)
      : asked_(asked), model_(build_model(asked)), options_(options(file)) {}

  [[nodiscard]] Foreseen foresee(const Shown& shown) const {
    using namespace reef;
    Foreseen result;
    const schedule::World world = asked_.world(*options_.profile);
    double wire = 0;
    std::vector<double> busy(static_cast<std::size_t>(asked_.ranks), 0);
    result.micro_batches = static_cast<std::int64_t>(asked_.micro_batches) * asked_.replicas();
    const auto simulate = [&](int variant, const auto& programs, const auto& placements) {
      for (const schedule::Placement& placement : placements) result.peak = std::max(result.peak, placement.device_bytes);
      const double share = share_of(variant);
      if (share == 0 || !fits(result.peak)) return;
      const schedule::Simulation run = schedule::simulate(programs, placements, world, 3);
      result.step += share * run.step;
      for (const Bytes rank : run.wire_bytes) wire += share * static_cast<double>(rank);
      for (std::size_t rank = 0; rank < busy.size(); ++rank) busy[rank] += share * run.step * run.utilisation[rank];
      if (asked_.adapts) result.micro_batches += extra(run);
      if (is_endless(programs, run)) {
        result.is_endless = true;
        return;
      }
      if (shown && variant == variants() - 1) shown(programs, run);
    };
    try {
      for (const StepEstimate& rank : Asked::estimate_all(model_, options_, asked_.ranks, simulate))
        result.peak = std::max(result.peak, rank.device_bytes);
    } catch (const ScheduleError& error) {
      result.why = error.what();
      return result;
    }
    if (!fits(result.peak)) {
      result.why = concat("a device has ", format_bytes(asked_.memory), ", the recipe needs ", format_bytes(result.peak));
      return result;
    }
    if (result.is_endless) {
      result.why = concat("phases communicate for ", result.step / phases_of(asked_.recipe), " s, that is ", result.micro_batches,
                          " micro-batches of all replicas in a step, or more");
      return result;
    }
    result.feasible = true;
    result.wire = static_cast<Bytes>(wire);
    if (result.step > 0) result.utilisation = *std::min_element(busy.begin(), busy.end()) / result.step;
    return result;
  }

  [[nodiscard]] reef::run::Topology topology() const { return options_.topology.value_or(reef::run::Topology(asked_.ranks)); }

  [[nodiscard]] Estimated estimate() const {
    try {
      return {model_.dag(), *options_.profile, answer_of(Asked::estimate(model_, options_, asked_.ranks, 0), asked_)};
    } catch (const reef::ScheduleError& error) {
      return {model_.dag(), *options_.profile, {{"feasible", false}, {"why", error.what()}}};
    }
  }

private:
  static constexpr bool periodic = reef::optim::periodic_policy<typename Asked::Optim>;

  [[nodiscard]] bool fits(reef::Bytes peak) const { return asked_.memory == 0 || peak <= asked_.memory; }

  /// Some loop ran to its end that no asked bound has set.
  template <class Programs>
  [[nodiscard]] bool is_endless(const Programs& programs, const reef::schedule::Simulation& run) const {
    if (!asked_.adapts || options_.accumulation.max_micro_batches == asked_.most) return false;
    for (const reef::schedule::Program& program : programs) {
      const std::vector<int>& counts = run.trip_counts[static_cast<std::size_t>(program.rank)];
      for (std::size_t loop = 0; loop < counts.size(); ++loop) {
        if (counts[loop] >= program.repeats[loop].max) return true;
      }
    }
    return false;
  }

  /// Micro-batches of all replicas that a step took beyond the fixed ones.
  [[nodiscard]] std::int64_t extra(const reef::schedule::Simulation& run) const {
    const reef::run::Topology topology = options_.topology.value_or(reef::run::Topology(asked_.ranks));
    const std::int64_t of_body = topology.stages > 1 ? options_.micro_batches.front() : 1;
    std::int64_t count = 0;
    for (int replica = 0; replica < topology.replicas; ++replica) {
      const std::vector<int>& loops = run.trip_counts[static_cast<std::size_t>(topology.rank(replica, 0))];
      count += of_body * std::accumulate(loops.begin(), loops.end(), std::int64_t{0});
    }
    return count;
  }

  [[nodiscard]] int variants() const { return periodic ? 1 + asked_.fragments : 1; }

  /// Of a period most steps send nothing, and each fragment has one of its own.
  [[nodiscard]] double share_of(int variant) const {
    if (!periodic) return 1;
    return (variant == 0 ? asked_.sync_every - asked_.fragments : 1) / static_cast<double>(asked_.sync_every);
  }

  /// What the Trainer would be made of, but for what it plans for its device.
  [[nodiscard]] Options options(const std::string& file) const {
    using namespace reef;
    Options options;
    int phases = 1;
    if constexpr (optim::overlapping_policy<typename Asked::Optim>) phases = Asked::Optim::phases_per_step;
    if (asked_.micro_batches % phases != 0) {
      refuse(file, concat(asked_.micro_batches, " micro-batches over ", phases, " phases"), "an even number");
    }
    options.micro_batches = {asked_.micro_batches / phases};
    // Loops end: at the bound that is asked for, or where simulating them would take too long.
    if (asked_.adapts) {
      const int most = asked_.max_simulated();
      options.accumulation = Accumulation::capped(asked_.most > 0 ? std::min(asked_.most, most) : most);
    }
    // A norm is of all gradients, and these schedules update within a step.
    if (plan::is_asynchronous_schedule(asked_.pipeline)) {
      options.non_finite = optim::NonFinite::ignore;
      options.clip_norm = 0;
    }
    options.device.threads = 1;
    options.device.memory_bytes = asked_.memory;
    options.device.link_bytes_per_second = asked_.link;
    options.profile = graph::estimate(model_.dag(), graph::Speed{asked_.flops, asked_.memory_rate, asked_.link});
    if constexpr (requires { options.pipeline.schedule; }) {
      run::Topology topology(asked_.ranks / asked_.stages, asked_.stages);
      topology.rank_at = asked_.rank_at;
      options.pipeline.schedule = asked_.pipeline;
      options.pipeline.unit = asked_.unit;
      options.network = asked_.network;
      options.topology = std::move(topology);
    }
    if constexpr (requires { options.compress.gradient = codec::Chosen(); }) {
      for (const auto& [channel, codec] : asked_.compress) {
        const codec::Chosen chosen = codec::Chosen::of(codec);
        if (channel == "activations") options.compress.activation = chosen;
        if (channel == "activation-gradients") options.compress.activation_gradient = chosen;
        if (channel == "gradients") options.compress.gradient = chosen;
        if (channel == "parameters") options.compress.parameter = chosen;
      }
      options.compress.one_mask = asked_.one_mask;
      if (asked_.one_mask && !options.compress.activation_gradient) {
        options.compress.activation_gradient = codec::Chosen::of("dense");
      }
      options.compress.adapt = asked_.adapt_ratios;
    }
    if constexpr (periodic) {
      using Overlap = run::OuterSchedule::Overlap;
      options.optim.every = asked_.sync_every;
      options.optim.fragments = asked_.fragments;
      options.optim.overlap = asked_.overlap == "eager" ? Overlap::eager : asked_.overlap == "mix" ? Overlap::mix : Overlap::none;
    }
    if (asked_.layout == "op-fence" && asked_.ranks > 1)
      options.topology = fenced(model_.dag(), *options.profile, *options.topology, asked_, options.micro_batches.front(), needs_of(options));
    return options;
  }

  /// What stages need of their devices, all else being as in the options: none where a model is swapped, or memory is no bound.
  /// Replicas of a stage need the same but for what its shards differ in, so one of them stands for all.
  [[nodiscard]] reef::run::StageNeeds needs_of(const Options& options) const {
    if (asked_.memory == 0 || Asked::Swap::offloads_to_host) return {};
    return [this, &options](const reef::run::Topology& candidate) {
      Options asked = options;
      asked.topology = candidate;
      std::vector<reef::Bytes> bytes(static_cast<std::size_t>(asked_.ranks));
      for (int stage = 0; stage < candidate.stages; ++stage) {
        const reef::Bytes taken = Asked::estimate(model_, asked, asked_.ranks, candidate.rank(0, stage)).device_bytes;
        for (int replica = 0; replica < candidate.replicas; ++replica)
          bytes[static_cast<std::size_t>(candidate.rank(replica, stage))] = taken;
      }
      return bytes;
    };
  }

  const RecipeCase& asked_;
  Model model_;
  Options options_;
};

/// A recipe without its type.
template <class... Policies>
inline constexpr Recipe recipe_of{
    [](const RecipeCase& asked, const std::string& file, const Shown& shown) {
      return RecipeOf<Policies...>(asked, file).foresee(shown);
    },
    [](const RecipeCase& asked, const std::string& file) { return RecipeOf<Policies...>(asked, file).estimate(); },
    [](const RecipeCase& asked, const std::string& file) { return RecipeOf<Policies...>(asked, file).topology(); }};

}  // namespace reef_examples
