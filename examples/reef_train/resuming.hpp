#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/json.hpp>
#include <reef/io/manifest.hpp>
#include <reef/nn/adapter_file.hpp>
#include <reef/nn/gpt2_file.hpp>
#include <reef/nn/model_folder.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "checkpoint_facts.hpp"
#include "graph_model.hpp"
#include "metrics.hpp"
#include "setup.hpp"

// What a run begins with: weights, a checkpoint, or neither. All ranks call these.

namespace reef_examples {

/// The weights of --init: rank by rank the same file. A language head stays out of a model of --classes; a class head of
/// --init goes into it.
template <class TrainerType>
void load_weights(TrainerType& trainer, const Setup& run) {
  using Sum = typename TrainerType::Sum;
  const auto set = [&](const std::string& name, const std::vector<Sum>& values) {
    const auto& all = trainer.model().dag().parameters;
    const bool is_there = std::any_of(all.begin(), all.end(), [&](const auto& parameter) { return parameter.name == name; });
    if (is_there && trainer.holds(name)) trainer.set_parameter(name, values);
  };
  if (run.options.from_scratch)
    return run.say("weights: drawn by --seed, since --init is a config.json alone");
  auto base = base_model_of<typename TrainerType::Device, typename TrainerType::T>(run.options, run.config, 1);
  if (run.options.labels) base = with_head(run.options, std::move(base));
  if (run.options.given) {
    const auto file = reef::nn::read_weights<Sum>(run.options.init, *run.options.given, base.dag(), set);
    return run.say("weights: from " + file.string());
  }
  const reef::nn::Gpt2File file(run.options.init);
  file.read<Sum>(base.dag(), run.config.vocabulary, set);
  const std::int64_t rows = file.config().vocabulary;
  run.say(reef::concat("weights: from ", file.path().string(),
                       rows == run.config.vocabulary
                           ? std::string()
                           : reef::concat(", the first ", run.config.vocabulary, " of its ", rows,
                                          " tokens: the rest pad its vocabulary")));
}

/// The adapters of --init-adapter.
template <class TrainerType>
void load_adapter(TrainerType& trainer, const Setup& run) {
  using Sum = typename TrainerType::Sum;
  reef::nn::read_adapter<Sum>(run.options.init_adapter, trainer.model().dag(),
                              [&](std::string_view name, const std::vector<Sum>& values) {
                                if (trainer.holds(name)) trainer.set_parameter(name, values);
                              });
  run.say("adapter: from " + run.options.init_adapter);
}

/// Refuses on all ranks what no run goes on with, and says what goes on otherwise than it was. A manifest
/// that cannot be read is left to the resume.
template <class TrainerType>
void compare_with_checkpoint(TrainerType& trainer, const Setup& run, const CheckpointFacts& now) {
  std::string refusal;
  const auto steps = reef::io::complete_checkpoints(run.options.checkpoint);
  if (trainer.rank() == 0 && !steps.empty()) {
    try {
      const auto folder = reef::io::checkpoint_folder(run.options.checkpoint, steps.back());
      const CheckpointFacts was(reef::io::read_manifest(folder).facts);
      const auto step = static_cast<std::int64_t>(steps.back());
      for (const std::string& warning : was.compare(now, step, run.options.steps)) run.say(warning);
    } catch (const reef::OptionError& error) {
      refusal = error.what();
    } catch (const reef::Error&) {  // the resume tells it, on all ranks
    }
  }
  refusal = reef::comm::broadcast_text(trainer.progress(), "comparison with the checkpoint",
                                       std::move(refusal));
  if (refusal.empty()) return;
  reef::comm::barrier(trainer.progress(), "the comparison is told");  // they end together
  throw reef::OptionError(refusal);
}

/// From the latest checkpoint, if there is one, which `now` goes on from.
template <class TrainerType>
void resume(TrainerType& trainer, const Setup& run, const CheckpointFacts& now, Metrics& metrics) {
  compare_with_checkpoint(trainer, run, now);
  const auto facts = reef::checkpoint::resume(trainer, run.options.checkpoint, called_by(run.options.recipe));
  if (!facts) {
    run.say("resume: no complete checkpoint in " + run.options.checkpoint + ", starting at step 1");
    return;
  }
  const char* const source = "the checkpoint";
  std::optional<MetricsLine> last;
  if (facts->contains("metrics")) {
    last = {reef::io::require<std::int64_t>(*facts, "metrics.step", source),
            reef::io::require<std::int64_t>(*facts, "metrics.tokens", source),
            reef::io::require<double>(*facts, "metrics.seconds", source)};
  }
  metrics.resume(reef::io::require<std::uint64_t>(*facts, "tokens", source),
                 reef::io::value_or<double>(*facts, "seconds", 0, source), last);
  run.say(reef::concat("resume: after step ", trainer.progress_state().committed));
  if (!run.options.init.empty())
    run.say("weights: the checkpoint's, not those of --init " + run.options.init);
}

/// A later resume takes the checkpoint of the most steps: while this run has made fewer, another run's.
template <class TrainerType>
void require_new_checkpoints(TrainerType& trainer, const Setup& run) {
  const auto steps = reef::io::complete_checkpoints(run.options.checkpoint);
  std::uint64_t found = steps.empty() ? 0 : steps.back() + 1;
  reef::comm::broadcast(trainer.progress(), "checkpoints that are there", 0, std::span(&found, 1));
  if (found == 0) return;
  throw reef::OptionError("--checkpoint ", run.options.checkpoint,
                          " holds another run's checkpoint, after step ", found - 1,
                          ": a later --resume would take that for this run's.\n  fix: --resume to "
                          "go on from it, another directory, or remove this one.");
}

/// A warning is for what a longer run loses less of: some steps are lost whatever --steps is.
template <class TrainerType>
void tell_what_is_lost(TrainerType& trainer, const Setup& run) {
  using Optim = typename TrainerType::Optim;
  const std::int64_t began = trainer.progress_state().began;
  const auto lost = [&](std::int64_t steps) {
    return Optim::unsynchronised(trainer.plan(), began, steps);
  };
  const std::int64_t steps = run.options.steps;
  const std::int64_t more = Optim::longer_run(trainer.plan(), began, steps);
  if (more == steps) return;
  run.say(reef::concat("warning: not all weights at the end will have the last ", lost(steps),
                       " steps, since their outer step comes later. fix: --steps ", more,
                       ", where it is ", lost(more)));
}

}  // namespace reef_examples
