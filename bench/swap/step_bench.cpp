// What a step takes whose model is swapped through a small device, beside one whose model stays there.
//
//   build/release/bench/swap_step_bench profile MODEL GB/S FILE
//   build/release/bench/swap_step_bench run MODEL GB/S FILE SHARE CHECKS ROUNDS C...
//
// measured.py starts it, and makes the table of what it prints: a line of JSON for each reading.
//
//     MODEL    LAYERSxHEADSxCHANNELS,VOCABULARY,CONTEXT,BATCH of a GPT in fp32, on one thread
//     GB/S     of the emulated link, each way
//     FILE     the profile: written by the one process, read by the other
//     SHARE    of the memory that the model needs to stay on the device, recomputed: that of the device
//     CHECKS   checked: the norm of all gradients is clipped before the update; ignored: it runs beside the
//              backward where it can
//     C        micro-batches of a step
//
// Policies take turns in every round, each round beginning with another. One trainer lives at a time: it is
// made, takes a step that does not count, and as many as begin within a second, of which the mean counts, the
// update included.

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/graph/measure.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/profile/profile_json.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/measure.hpp"
#include "support/ranks_main.hpp"

namespace {

using Activations = std::vector<reef::Activations>;  // by segment, or one for all; none: planned
using reef::Bytes;
using reef::device::Host;
using Rule = reef::optim::Ddp<reef::optim::AdamW>;
using Resident = reef::Trainer<Rule>;

struct Setting {
  reef::nn::GptConfig model;
  double link = 0;  ///< bytes per second
  bool checks = true;
  reef::profile::Profile profile{};
};

reef::nn::GptConfig model_of(const std::string& text) {
  long long numbers[6];
  if (std::sscanf(text.c_str(), "%lldx%lldx%lld,%lld,%lld,%lld", &numbers[0], &numbers[1],
                  &numbers[2], &numbers[3], &numbers[4], &numbers[5]) != 6) {
    throw reef::OptionError(
        "swap_step_bench: '", text,
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
  std::optional<reef::run::Swapping> swapping{};
};

auto gpt(const Setting& setting) { return reef::nn::gpt<Host, float>(setting.model, 1); }

template <class TrainerType>
typename TrainerType::Options options_of(const Setting& setting, int micro_batches, Bytes memory,
                                         const Plan& plan) {
  typename TrainerType::Options options;
  options.micro_batches = {micro_batches};
  options.activations = plan.activations;
  options.cuts = plan.cuts;
  options.swapping = plan.swapping;
  options.profile = setting.profile;
  if (!setting.checks) {
    options.clip_norm = 0;
    options.non_finite = reef::optim::NonFinite::ignore;
  }
  options.device.threads = 1;
  options.device.link_bytes_per_second = setting.link;
  options.device.memory_bytes = memory;
  return options;
}

struct Reading {
  double step = 0;
  double busy =
      0;  ///< of it, kernels: of the model on the compute lane, of the update there or on its own
};

template <class TrainerType>
Reading read(const Setting& setting, typename TrainerType::Options options) {
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
  TrainerType trainer(gpt(setting), source, options);
  trainer.step();
  const double from = reef::trace::now();
  int steps = 0;
  const double seconds = reef_bench::seconds_of([&] {
    do {
      trainer.step();
      ++steps;
    } while (reef::trace::now() - from < 1);
  });
  reef::trace::Recording recording;
  sink.collect(recording);
  std::vector<reef::trace::Intervals::Interval> kernels;
  for (const reef::trace::Span& span : recording.spans) {
    const std::string_view name = recording.name_of(span);
    const std::string& track = recording.tracks.at(static_cast<std::size_t>(span.track));
    if (span.begin < from || (track != "compute" && track != "update")) continue;
    const bool copies =
        name.starts_with("Evict") || name.starts_with("WriteBack") || name.starts_with("Stash");
    if (!copies) kernels.push_back({span.begin, span.end});
  }
  return {seconds / steps, reef::trace::Intervals(std::move(kernels)).length() / steps};
}

template <class TrainerType>
double predicted(const Setting& setting, const typename TrainerType::Options& options) {
  const auto programs = TrainerType::programs(gpt(setting), options, 1);
  return reef::schedule::simulate(
             programs,
             reef::schedule::World::uniform(1, reef::run::machine_of(setting.profile), {}), 1)
      .total;
}

/// The policy's line of what it plans; then, round by round, of what it takes.
template <class TrainerType>
Plan say_plan(const Setting& setting, const char* policy, int c, Bytes memory, const Plan& given) {
  auto options = options_of<TrainerType>(setting, c, memory, given);
  const auto model = gpt(setting);
  options = TrainerType::planned(model, std::move(options));
  std::map<reef::Activations, int> count;
  const std::size_t segments = options.cuts.size() + 1;
  for (std::size_t s = 0; s + 1 < segments; ++s) {
    ++count[options.activations.size() > 1 ? options.activations[s] : options.activations[0]];
  }
  const reef::run::Swapping swapping = options.swapping.value_or(reef::run::Swapping{});
  std::printf(
      "{\"policy\": \"%s\", \"C\": %d, \"predicted_s\": %.6f, \"device_bytes\": %llu, "
      "\"segments\": %zu, \"slots\": %d, \"stays\": %d, \"stashed\": %d, \"recomputed\": %d, "
      "\"recomputed_and_stashed\": %d, \"streams\": %s}\n",
      policy, c, predicted<TrainerType>(setting, options),
      static_cast<unsigned long long>(TrainerType::estimate(model, options).device_bytes), segments,
      swapping.slots, swapping.stays, count[reef::Activations::stash],
      count[reef::Activations::recompute], count[reef::Activations::recompute_and_stash],
      swapping.streams ? "true" : "false");
  std::fflush(stdout);
  return {options.cuts, options.activations, options.swapping};
}

template <class TrainerType>
void say_reading(const Setting& setting, const char* policy, int c, Bytes memory, const Plan& plan,
                 int round) {
  const Reading reading =
      read<TrainerType>(setting, options_of<TrainerType>(setting, c, memory, plan));
  std::printf(
      "{\"policy\": \"%s\", \"C\": %d, \"round\": %d, \"step_s\": %.6f, \"busy_s\": %.6f}\n",
      policy, c, round, reading.step, reading.busy);
  std::fflush(stdout);
}

struct Policy {
  const char* name;
  bool stays;
  Plan (*say)(const Setting&, const char*, int, Bytes, const Plan&);
  void (*read)(const Setting&, const char*, int, Bytes, const Plan&, int);
  Plan plan{};
};

template <class TrainerType>
Policy policy(const char* name, Plan plan = {}) {
  return {name, !TrainerType::Swap::home_is_host, &say_plan<TrainerType>, &say_reading<TrainerType>,
          std::move(plan)};
}

/// The same cuts and recomputations where nothing leaves.
Plan without_stashes(Plan plan) {
  for (reef::Activations& activations : plan.activations) {
    activations =
        reef::run::recomputes(activations) ? reef::Activations::recompute : reef::Activations::keep;
  }
  plan.swapping.reset();
  return plan;
}

void run(const Setting& setting, double share, int rounds, const std::vector<int>& counts) {
  using namespace reef::swap;
  const Plan recomputed{{}, {reef::Activations::recompute}};
  for (const int c : counts) {
    const auto all = options_of<Resident>(setting, c, 0, recomputed);
    const auto stays = static_cast<double>(Resident::estimate(gpt(setting), all).device_bytes);
    const auto memory = static_cast<Bytes>(share * stays);
    std::printf("{\"C\": %d, \"memory_bytes\": %llu, \"resident_bytes\": %.0f}\n", c,
                static_cast<unsigned long long>(memory), stays);
    std::vector<Policy> policies{policy<reef::Trainer<Atom<>, Rule>>("atom"),
                                 policy<reef::Trainer<PaperAtom, Rule>>("paper"),
                                 policy<reef::Trainer<LayerStreaming, Rule>>("streaming"),
                                 policy<Resident>("resident", {{}, {reef::Activations::keep}}),
                                 policy<Resident>("resident, recomputed", recomputed)};
    const auto given = [&](const Policy& p) { return p.stays ? 0 : memory; };
    const auto say = [&](Policy& p) { p.plan = p.say(setting, p.name, c, given(p), p.plan); };
    for (Policy& p : policies) say(p);
    policies.push_back(policy<Resident>("resident as atom", without_stashes(policies[0].plan)));
    say(policies.back());
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < policies.size(); ++i) {
        const Policy& p = policies[(i + static_cast<std::size_t>(round)) % policies.size()];
        p.read(setting, p.name, c, given(p), p.plan, round);
      }
    }
  }
}

void start(const std::vector<std::string>& words) {
  const bool profiles = words.size() == 4 && words[0] == "profile";
  if (!profiles && !(words.size() >= 8 && words[0] == "run")) {
    throw reef::OptionError(
        "swap_step_bench: what is asked is not clear.\n  fix: profile MODEL GB/S FILE, or run "
        "MODEL "
        "GB/S FILE SHARE checked|ignored ROUNDS C...");
  }
  Setting setting{model_of(words[1]), std::stod(words[2]) * 1e9};
  if (profiles) {
    Host device({.link_bytes_per_second = setting.link, .threads = 1});
    const auto model = gpt(setting);
    reef::graph::MeasureOptions options;
    options.classes = static_cast<std::int32_t>(setting.model.vocabulary);
    reef::profile::save(reef::graph::measure(device, model, options), words[3]);
    return;
  }
  setting.profile = reef::profile::load(words[3]);
  std::vector<int> counts;
  for (std::size_t i = 7; i < words.size(); ++i) counts.push_back(std::stoi(words[i]));
  setting.checks = words[5] == "checked";
  run(setting, std::stod(words[4]), std::stoi(words[6]), counts);
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "swap_step_bench", start);
}
