#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/graph/graph.hpp>
#include <reef/run/step_plan.hpp>

#include "setup.hpp"

namespace reef_examples {

template <class TrainerType>
std::int64_t tokens_a_step(const TrainerType& trainer, const Setup& run) {
  return static_cast<std::int64_t>(trainer.plan().micro_batches_of_step()) * run.config.batch *
         run.options.text_context();
}

/// How the model passes through the device.
inline void tell_swapping(const reef::run::StepPlan& plan, const Say& say) {
  std::string between;
  const auto count = [&](reef::Activations of, const char* what) {
    int segments = 0;
    for (std::size_t s = 0; s < plan.segments.size(); ++s) segments += plan.activations_of(s) == of;
    if (segments > 0) between += reef::concat(between.empty() ? "" : ", ", segments, " ", what);
  };
  count(reef::Activations::keep, "kept");
  count(reef::Activations::stash, "in host memory");
  count(reef::Activations::recompute, "computed again");
  count(reef::Activations::recompute_and_stash, "computed again from host memory");
  std::string slots = reef::concat(plan.swapping.weight_slots, " slots, ");
  if (plan.stashes_some())
    slots += reef::concat(plan.swapping.stash_slots, " for what goes to host memory, ");
  say(reef::concat(
      "swapped: ", plan.segments.size(), " segments, of which ", plan.swapping.resident_segments,
      " live on the device, through ", slots,
      plan.swapping.per_micro_batch ? "micro-batch by micro-batch" : "all micro-batches of each",
      "; between forward and backward: ", between));
}

/// What each stage holds, and its part of the work.
inline void tell_stages(const reef::run::StepPlan& plan, const Say& say) {
  const reef::run::Topology& topology = plan.topology;
  std::string shares;
  double all = 0;
  std::vector<double> times(static_cast<std::size_t>(topology.stages));
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const double time = plan.segment_times[s].forward + plan.segment_times[s].backward;
    times[static_cast<std::size_t>(plan.stage_of_segment[s])] += time;
    all += time;
  }
  for (const double time : times) {
    shares += reef::concat(shares.empty() ? "" : ", ", std::llround(100 * time / all), "%");
  }
  say(reef::concat("stages: ", topology.text(), ", with ", shares, " of the work"));
}

/// Which share of an update's work each rank has, where a rule takes whole matrices.
inline void tell_matrices(const reef::run::StepPlan& plan, bool sharded, const Say& say) {
  const auto matrices = std::count_if(plan.matrices.of_parameter.begin(), plan.matrices.of_parameter.end(),
                                      [](const auto& matrix) { return matrix.has_value(); });
  if (!sharded) return say(reef::concat("update: ", matrices, " whole matrices, all on every rank"));
  std::int64_t all = 0;
  for (const std::int64_t load : plan.matrices.loads) all += load;
  std::string shares;
  for (const std::int64_t load : plan.matrices.loads) {
    shares += reef::concat(shares.empty() ? "" : ", ", (100 * load + all / 2) / all, "%");
  }
  say(reef::concat("update: ", matrices, " whole matrices; ranks have ", shares, " of the work"));
}

/// What goes over the wire by a codec, and the most that a rank sends of it in a step.
template <class TrainerType>
void tell_codecs(TrainerType& trainer, const TrainOptions& options, const Say& say) {
  reef::Bytes most = 0;
  for (const reef::schedule::Instruction& i : trainer.program().round) {
    const bool is_encoded = i.collective || reef::schedule::is_between_stages(i.traffic);  // ties stay as they are
    if (!is_encoded || !trainer.plan().wire_of(i.traffic).encodes(i.index)) continue;
    for (const reef::schedule::Message& message : i.sends) most += message.bytes;
  }
  std::string channels;
  for (const auto& [channel, codec] : options.compress) {
    channels += reef::concat(channels.empty() ? "" : ", ", channel, " by ", codec);
  }
  if (options.one_mask) channels += ", one mask for both ways";
  say(reef::concat("compressed: ", channels, "; at most ", reef::format_bytes(most), " of them a step and rank"));
}

/// What is about to be trained, on what.
template <class TrainerType>
void introduce(TrainerType& trainer, const Setup& run) {
  const reef::graph::Dag& dag = trainer.model().dag();
  const std::int64_t tokens = tokens_a_step(trainer, run);
  std::int64_t trained = 0;
  for (const reef::graph::Parameter& parameter : dag.parameters) trained += parameter.frozen ? 0 : parameter.spec.shape.size();
  const std::string of_them = trained < dag.parameter_count() ? reef::concat(" (", trained, " of them trained)") : "";
  const std::int64_t prompt = run.options.prompt_positions();
  run.say(reef::concat("model: ", dag.parameter_count(), " parameters", of_them, ", ", text_of_model(run.options), ", context ",
                       run.options.context, prompt > 0 ? reef::concat(", ", prompt, " of it a soft prompt") : ""));
  const std::size_t held_out = run.data.validation().size();
  const std::size_t first = evaluated(run.data.validation(), run.options).size();
  run.say(reef::concat(
      "text: ", run.data.training().size(), " ", run.tokenizer.unit(), "s to train on, ", held_out,
      " held out", first < held_out ? reef::concat(" (the first ", first, " are evaluated)") : "",
      ", vocabulary of ", run.tokenizer.vocabulary()));
  for (const std::string& note : run.data.notes()) run.say(note);
  if (run.options.pack) {
    const auto pairs = run.data.training_pairs();
    run.say(reef::concat("packed: ", pairs.size(), " samples to train on in ", rows_of(run.data.training(), pairs, run.options.rows()),
                         " rows"));
  }
  run.say(reef::concat("step: ", tokens, " tokens; ", run.threads, " thread(s) a rank, ",
                       reef::format_bytes(trainer.device().memory().used), " a device, ",
                       reef::name_of(reef::element_of<typename TrainerType::T>), ", ",
                       reef::device::name_of(reef::device::instruction_set())));
  if (trainer.plan().topology.stages > 1) tell_stages(trainer.plan(), run.say);
  if constexpr (TrainerType::Swap::offloads_to_host) tell_swapping(trainer.plan(), run.say);
  if (!run.options.compress.empty()) tell_codecs(trainer, run.options, run.say);
  if (trainer.plan().matrices.needed()) tell_matrices(trainer.plan(), TrainerType::Optim::sharded, run.say);
}

}  // namespace reef_examples
