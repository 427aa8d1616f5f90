#pragma once

// What a step takes whose model is swapped through a small device, beside one whose model stays there.
//
//   build/release/bench/swap_step_bench profile MODEL GB/S FILE
//   build/release/bench/swap_step_bench steps MODEL GB/S FILE SHARE CHECKS C POLICY
//   build/release/bench/swap_cuda_step_bench, of the same, on a GPU
//
// measured.py starts it, and makes the table of what it prints, lines of JSON: of what the policy plans; when it
// has taken a step that does not count; and whenever a line comes in, of a step, the update included.
//
//     MODEL    LAYERSxHEADSxCHANNELS,VOCABULARY,CONTEXT,BATCH of a GPT in fp32, on one thread where that is a host
//     GB/S     of the emulated link, each way; a GPU has its own: 0
//     FILE     the profile: written by the one process, read by the other
//     SHARE    of the memory that the model needs to stay on the device, recomputed: that of the device
//     CHECKS   checked: the norm of all gradients is clipped before the update; ignored: it runs beside the
//              backward where it can
//     C        micro-batches of a step
//     POLICY   atom, paper, streaming, resident, "resident, recomputed", "resident as atom"

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/graph/measure.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/profile/profile_json.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/ranks_main.hpp"

namespace reef_bench {

using Activations = std::vector<reef::Activations>;  // by segment, or one for all; none: planned
using reef::Bytes;
using Rule = reef::optim::Ddp<reef::optim::AdamW>;
template <class Device>
using Resident = reef::Trainer<Device, Rule>;

struct Setting {
  reef::nn::GptConfig model;
  double link = 0;  ///< bytes per second
  bool checks = true;
  int micro_batches = 1;
  reef::profile::Profile profile{};
};

inline reef::nn::GptConfig model_of(const std::string& text) {
  long long numbers[6];
  if (std::sscanf(text.c_str(), "%lldx%lldx%lld,%lld,%lld,%lld", &numbers[0], &numbers[1],
                  &numbers[2], &numbers[3], &numbers[4], &numbers[5]) != 6) {
    throw reef::OptionError(
        "bench/swap: '", text,
        "' is no model.\n  fix: LAYERSxHEADSxCHANNELS,VOCABULARY,CONTEXT,BATCH.");
  }
  reef::nn::GptConfig config;
  config.layers = numbers[0];
  config.heads = numbers[1];
  config.channels = numbers[2];
  config.vocabulary = numbers[3];
  config.context = numbers[4];
  config.batch = numbers[5];
  return config;
}

/// What is not planned anew.
struct Plan {
  std::vector<int> cuts{};
  Activations activations{};
  std::optional<reef::run::SwapSchedule> swapping{};
};

template <class Device>
auto gpt(const Setting& setting) {
  return reef::nn::gpt<Device, float>(setting.model, 1);
}

/// Of as much memory as there is.
template <class Device>
typename Device::Options device_of(const Setting& setting) {
  typename Device::Options options;
  if constexpr (requires { options.link_bytes_per_second; }) {
    options.link_bytes_per_second = setting.link;
    options.threads = 1;
  } else if (setting.link > 0) {
    throw reef::OptionError("bench/swap: a link of ", setting.link,
                            " bytes per second.\n  fix: 0, since a GPU has its own.");
  }
  return options;
}

template <class TrainerType>
typename TrainerType::Options options_of(const Setting& setting, Bytes memory, const Plan& plan) {
  typename TrainerType::Options options;
  options.micro_batches = {setting.micro_batches};
  options.activations = plan.activations;
  options.cuts = plan.cuts;
  options.swapping = plan.swapping;
  options.profile = setting.profile;
  if (!setting.checks) {
    options.clip_norm = 0;
    options.non_finite = reef::optim::NonFinite::ignore;
  }
  options.device = device_of<typename TrainerType::Device>(setting);
  options.device.memory_bytes = memory;
  return options;
}

/// Seconds of kernels, of the model or of the update, on those tracks.
inline double busy_since(double from, const reef::trace::Recording& recording,
                         const std::set<std::string_view>& tracks) {
  std::vector<reef::trace::Intervals::Interval> kernels;
  for (const reef::trace::Span& span : recording.spans) {
    const std::string_view name = recording.name_of(span);
    const std::string& track = recording.tracks.at(static_cast<std::size_t>(span.track));
    if (span.begin < from || !tracks.contains(track)) continue;
    const bool copies =
        name.starts_with("Evict") || name.starts_with("WriteBack") || name.starts_with("Stash");
    if (!copies) kernels.push_back({span.begin, span.end});
  }
  return reef::trace::Intervals(std::move(kernels)).length();
}

/// A line when it is ready; then a line of input, a step, its line, to the end of the input.
template <class TrainerType>
void say_steps(const Setting& setting, typename TrainerType::Options options) {
  reef::trace::Sink sink(0);
  options.trace = &sink;
  const auto source = [&](std::uint64_t first, std::span<const reef::AnyView> inputs) {
    for (const reef::AnyView& input : inputs) {
      std::uint64_t at = 0;
      for (std::int32_t& token : input.as<std::int32_t>().span()) {
        token = static_cast<std::int32_t>(reef::random_bits({1, first, 0, 0}, at++) %
                                          static_cast<std::uint32_t>(setting.model.vocabulary));
      }
    }
    return 1.0;
  };
  TrainerType trainer(gpt<typename TrainerType::Device>(setting), source, options);
  trainer.step();
  std::printf("{\"ready\": true}\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const double from = reef::trace::now();
    trainer.step();
    const double step = reef::trace::now() - from;
    reef::trace::Recording recording;
    sink.collect(recording);
    std::printf("{\"step_s\": %.6f, \"compute_s\": %.6f, \"busy_s\": %.6f}\n", step,
                busy_since(from, recording, {"compute"}),
                busy_since(from, recording, {"compute", "update"}));
    std::fflush(stdout);
  }
}

template <class TrainerType>
double predicted(const Setting& setting, const typename TrainerType::Options& options) {
  const auto programs =
      TrainerType::programs(gpt<typename TrainerType::Device>(setting), options, 1);
  return reef::schedule::simulate(
             programs,
             reef::schedule::World::uniform(1, reef::run::machine_of(setting.profile), {}), 1)
      .total;
}

template <class TrainerType>
Plan planned(const Setting& setting, Bytes memory, const Plan& given) {
  const auto options = TrainerType::planned(gpt<typename TrainerType::Device>(setting),
                                            options_of<TrainerType>(setting, memory, given));
  return {options.cuts, options.activations, options.swapping};
}

template <class TrainerType>
void say_plan(const Setting& setting, Bytes memory, const Plan& plan) {
  const auto options = options_of<TrainerType>(setting, memory, plan);
  std::map<reef::Activations, int> count;
  const std::size_t segments = options.cuts.size() + 1;
  for (std::size_t s = 0; s + 1 < segments; ++s) {
    ++count[options.activations.size() > 1 ? options.activations[s] : options.activations[0]];
  }
  const auto estimate = TrainerType::estimate(gpt<typename TrainerType::Device>(setting), options);
  const reef::run::SwapSchedule swapping = options.swapping.value_or(reef::run::SwapSchedule{});
  std::printf(
      "{\"predicted_s\": %.6f, \"device_bytes\": %llu, \"segments\": %zu, \"slots\": %d, "
      "\"stash_slots\": %d, \"stays\": %d, "
      "\"stashed\": %d, \"recomputed\": %d, \"recomputed_and_stashed\": %d, \"streams\": %s}\n",
      predicted<TrainerType>(setting, options),
      static_cast<unsigned long long>(estimate.device_bytes), segments, swapping.weight_slots,
      swapping.stash_slots, swapping.resident_segments, count[reef::Activations::stash],
      count[reef::Activations::recompute], count[reef::Activations::recompute_and_stash],
      swapping.per_micro_batch ? "true" : "false");
  std::fflush(stdout);
}

/// Of a policy with what is given of its plan: the line of the plan, then those of its steps.
template <class TrainerType>
void say(const Setting& setting, Bytes memory, const Plan& given) {
  const Plan plan = planned<TrainerType>(setting, memory, given);
  say_plan<TrainerType>(setting, memory, plan);
  say_steps<TrainerType>(setting, options_of<TrainerType>(setting, memory, plan));
}

/// The same cuts and recomputations where nothing leaves.
inline Plan without_stashes(Plan plan) {
  for (reef::Activations& activations : plan.activations) {
    activations =
        reef::run::recomputes(activations) ? reef::Activations::recompute : reef::Activations::keep;
  }
  plan.swapping.reset();
  return plan;
}

template <class Device>
void steps(const Setting& setting, double share, const std::string& policy) {
  using namespace reef::swap;
  using Stays = Resident<Device>;
  using Swapped = reef::Trainer<Device, Atom<>, Rule>;
  Plan kept;
  kept.activations = {reef::Activations::keep};
  Plan recomputed;
  recomputed.activations = {reef::Activations::recompute};
  const auto stays =
      Stays::estimate(gpt<Device>(setting), options_of<Stays>(setting, 0, recomputed));
  const auto memory = static_cast<Bytes>(share * static_cast<double>(stays.device_bytes));
  if (policy == "atom") return say<Swapped>(setting, memory, {});
  if (policy == "paper") return say<reef::Trainer<Device, PaperAtom, Rule>>(setting, memory, {});
  if (policy == "streaming")
    return say<reef::Trainer<Device, LayerStreaming, Rule>>(setting, memory, {});
  if (policy == "resident") return say<Stays>(setting, 0, kept);
  if (policy == "resident, recomputed") return say<Stays>(setting, 0, recomputed);
  if (policy == "resident as atom")
    return say<Stays>(setting, 0, without_stashes(planned<Swapped>(setting, memory, {})));
  throw reef::OptionError("bench/swap: '", policy,
                          "' is no policy.\n  fix: atom, paper, streaming, "
                          "resident, 'resident, recomputed' or 'resident as atom'.");
}

/// What the program does: arguments as above.
template <class Device>
void step_bench(const std::vector<std::string>& words) {
  const bool profiles = words.size() == 4 && words[0] == "profile";
  if (!profiles && !(words.size() == 8 && words[0] == "steps")) {
    throw reef::OptionError(
        "bench/swap: what is asked is not clear.\n  fix: profile MODEL GB/S FILE, or steps "
        "MODEL GB/S FILE SHARE checked|ignored C POLICY.");
  }
  Setting setting{model_of(words[1]), std::stod(words[2]) * 1e9};
  if (profiles) {
    Device device(device_of<Device>(setting));
    const auto model = gpt<Device>(setting);
    reef::graph::MeasureOptions options;
    options.classes = static_cast<std::int32_t>(setting.model.vocabulary);
    reef::profile::save(reef::graph::measure(device, model, options), words[3]);
    return;
  }
  setting.profile = reef::profile::load(words[3]);
  setting.checks = words[5] == "checked";
  setting.micro_batches = std::stoi(words[6]);
  steps<Device>(setting, std::stod(words[4]), words[7]);
}

}  // namespace reef_bench
