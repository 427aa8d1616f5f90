#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <reef/codec/chosen.hpp>
#include <reef/comm/agreement.hpp>
#include <reef/comm/network_file.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/graph/measure.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/profile/profile_json.hpp>
#include <reef/trainer/options.hpp>

#include "../support/text_source.hpp"
#include "../support/tokenizer.hpp"
#include "graph_model.hpp"
#include "options.hpp"
#include "pipeline_options.hpp"
#include "setup.hpp"

namespace reef_examples {

/// The text by its tokens, whatever its files are called.
inline reef::comm::SharedFact alike_of_data(const TrainOptions& options, TrainingData& data,
                                       const Tokenizer& tokenizer) {
  const std::string value =
      reef::concat(data.training().size(), " ", tokenizer.unit(), "s and ",
                   data.validation().size(), " held out, checksum ", data.fingerprint());
  const std::string files = options.data.size() == 1 ? options.data.front()
                            : options.data.empty()   ? std::string("Reef's own sources")
                                                     : reef::concat(options.data.size(), " files");
  return {"--data", value, reef::concat(files, " (", value, ")")};
}

/// What is there, or what the device does, an operator at a time.
template <class TrainerType>
reef::profile::Profile profile_of(const Setup& run,
                                  const typename TrainerType::Device::Options& device) {
  using Device = typename TrainerType::Device;
  const TrainOptions& options = run.options;
  if (std::filesystem::exists(options.profile)) return reef::profile::load(options.profile);
  if (run.ranks.size() > 1) {
    throw reef::OptionError(
        "--profile ", options.profile, " is not there.\n  why: ", run.ranks.size(),
        " ranks would measure beside each other.\n  fix: measure it first, with "
        "one rank and --steps 1.");
  }
  run.say("profile: measuring the model's operators");
  Device measured_on(device);
  const auto model = model_of<Device, typename TrainerType::T>(options, run.config, run.threads);
  reef::graph::MeasureOptions how;
  how.classes = static_cast<std::int32_t>(run.config.vocabulary);
  auto measured = reef::graph::measure(measured_on, model, how);
  reef::profile::save(measured, options.profile);
  run.say("profile: wrote " + options.profile);
  return measured;
}

/// The options of DiLoCo.
inline void set_outer_schedule(const TrainOptions& options, auto& sync) {
  using Overlap = reef::run::OuterSchedule::Overlap;
  sync.every = options.sync_every;
  sync.fragments = options.fragments;
  sync.overlap = options.overlap == "eager" ? Overlap::eager
                 : options.overlap == "mix" ? Overlap::mix
                                            : Overlap::none;
  sync.mix = options.mix;
  sync.outer_learning_rate = options.outer_lr;
  if constexpr (requires { sync.outer.options.momentum; }) sync.outer.options.momentum = options.outer_momentum;
}

/// Of DiLoCo whose differences are encoded.
template <class TrainerType>
void set_differences(const TrainOptions& options, typename TrainerType::Options& result) {
  using Divisor = typename TrainerType::Optim::Divisor;
  result.optim.divisor = options.divisor == "senders" ? Divisor::senders : Divisor::peers;
  result.optim.clip_to_median_norm = options.clip_median;
  result.compress.pseudo_gradient.decay = static_cast<float>(options.decay);
}

/// The codecs of --compress.
template <class Compress>
void set_codecs(const TrainOptions& options, Compress& compress) {
  const auto set = [&](const char* channel, reef::codec::Chosen& codec) {
    const auto given = options.compress.find(channel);
    if (given != options.compress.end()) codec = reef::codec::Chosen::of(given->second);
  };
  set("activations", compress.activation);
  set("activation-gradients", compress.activation_gradient);
  set("gradients", compress.gradient);
  set("parameters", compress.parameter);
  compress.one_mask = options.one_mask;
  compress.ramp.steps = options.ramp_ratios;
  if (compress.one_mask && !compress.activation_gradient) compress.activation_gradient = reef::codec::Chosen::of("dense");
}

/// Ratios that follow links, of which people and metrics hear.
inline void set_replan(const Setup& run, reef::compress::Replan& replan) {
  replan.every = run.options.replan_ratios;
  if (!run.options.replay_ratios.empty()) replan.replay = RatioLog::read(run.options.replay_ratios);
  replan.told = [&log = run.ratios, say = run.say](const reef::run::EdgeRatios& ratios) {
    log.note(ratios);
    say(reef::concat("ratios planned ", RatioLog::text_of(ratios)));
  };
}

/// The options of the command line as the Trainer takes them.
template <class TrainerType>
typename TrainerType::Options trainer_options(const Setup& run) {
  const TrainOptions& options = run.options;
  typename TrainerType::Options result;
  result.micro_batches = {options.micro_batches};
  result.accumulation = options.accumulation.value_or(reef::Accumulation::fixed());
  if (options.sampler == "shared") result.accumulation.order = reef::Accumulation::Order::shared;
  result.seed = options.seed;
  result.rule.options.weight_decay = options.weight_decay;
  result.groups = groups_of<TrainerType>(options);
  result.learning_rate.peak = options.lr;
  result.learning_rate.warmup = options.warmup_steps();
  result.learning_rate.steps = options.steps;
  result.learning_rate.floor = options.lr / 10;
  result.clip_norm = options.clip;
  using reef::optim::NonFinite;
  result.non_finite = options.non_finite == "skip"     ? NonFinite::skip
                      : options.non_finite == "ignore" ? NonFinite::ignore
                                                       : NonFinite::stop;
  using reef::Activations;
  if (options.activations != "planned") {
    result.activations = {options.activations == "keep"        ? Activations::keep
                          : options.activations == "stash"     ? Activations::stash
                          : options.activations == "recompute" ? Activations::recompute
                                                               : Activations::recompute_and_stash};
  }
  result.device.threads = run.threads;
  result.device.memory_bytes = options.device_memory;
  result.device.link_bytes_per_second = options.device_link * 1e9;
  for (const auto& [rank, factor] : options.slow) {
    if (rank >= run.ranks.size()) {
      throw reef::OptionError("--slow names rank ", rank, ", there are ", run.ranks.size(),
                              ".\n  fix: a rank from 0 to ", run.ranks.size() - 1, ".");
    }
    if (rank == run.ranks.rank()) result.device.slowdown = factor;
  }
  result.communication.deadline = options.deadline;
  if (!options.network.empty()) {
    result.communication.network = reef::comm::read_network(options.network, run.ranks.size());
  }
  result.trace = &run.sink;
  if (run.ranks.size() > 1) result.alike = {alike_of_data(options, run.data, run.tokenizer)};
  if (options.device_flops > 0) {
    const auto model = model_of<typename TrainerType::Device, typename TrainerType::T>(options, run.config, run.threads);
    result.profile = reef::graph::estimate(
        model.dag(), {1e9 * options.device_flops, 0, result.device.link_bytes_per_second});
    result.paced = true;
  }
  if (!options.profile.empty()) {
    result.profile = profile_of<TrainerType>(run, result.device);
    if (options.device_memory == 0 && options.recipe == "atom") {
      run.say("profile: without --device-memory there is nothing to plan by it");
    }
  }
  if (TrainerType::Swap::offloads_to_host && options.device_memory > 0) {
    run.say(reef::concat("swapped: planning how the model passes through ",
                         reef::format_bytes(options.device_memory)));
  }
  if constexpr (requires { result.pipeline.schedule; }) set_pipeline<TrainerType>(run, result);
  if constexpr (requires(reef::codec::Chosen codec) { result.compress.gradient = codec; }) {
    set_codecs(options, result.compress);
    if constexpr (requires { result.pipeline.schedule; }) {
      set_replan(run, result.compress.replan);
      result.compress.adapt = options.adapt_ratios && result.network;
    }
  }
  if constexpr (requires { result.compress.watch; }) result.compress.watch = run.edges.watch(options.measure_error);
  if constexpr (requires { result.optim.every; }) set_outer_schedule(options, result.optim);
  if constexpr (requires { result.compress.pseudo_gradient.decay; }) set_differences<TrainerType>(options, result);
  if constexpr (requires { result.pipeline.schedule; }) {
    if (fences(run)) fence_stages<TrainerType>(run, result);
  }
  return result;
}

}  // namespace reef_examples
