#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/network_file.hpp>
#include <reef/comm/node_cores.hpp>
#include <reef/comm/stop_request.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/measure.hpp>
#include <reef/io/json.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt2_config.hpp>
#include <reef/nn/gpt2_file.hpp>
#include <reef/profile/profile_json.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/generate.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/earlier_files.hpp"
#include "../support/own_text.hpp"
#include "../support/progress.hpp"
#include "../support/text_source.hpp"
#include "../support/tokenizer.hpp"
#include "../support/weight_files.hpp"
#include "checkpoint_facts.hpp"
#include "failures.hpp"
#include "metrics.hpp"
#include "options.hpp"

namespace reef_examples {

/// One training run from the command line, on this rank.
template <class TrainerType>
class Run {
  using Device = typename TrainerType::Device;
  using T = typename TrainerType::T;
  using Sum = reef::sum_t<T>;  // what parameters are given and taken as
  // Ranks meet in some steps only.
  static constexpr bool alone = reef::optim::periodic_policy<typename TrainerType::Optim>;

  // Of a failure all ranks know. Who ended first would end rank 0, before it has written its files.
  static constexpr const char* written = "the files are written";

public:
  Run(TrainOptions options, const reef::comm::StopRequest& stop)
      : options_(std::move(options)),
        stop_(stop),
        sink_(ranks_.rank()),
        tokenizer_(options_.tokenizer),
        data_(files(), tokenizer_, {options_.data_kind, options_.document_end}),
        config_(model_config()),
        threads_(options_.threads > 0 ? options_.threads : reef::comm::share_of_cores(ranks_)),
        trainer_(reef::nn::gpt<Device, T>(config_, threads_),
                 training_source(data_.training(), options_.context, options_.seed),
                 trainer_options(), validation_source(evaluated(), options_.context), ranks_),
        metrics_(options_, sink_, trainer_.ranks(), alone, failures_) {}

  /// Returns an exit status.
  int train() {
    introduce();
    if (!options_.init.empty()) load(options_.init);
    if (!options_.checkpoint.empty()) reef::checkpoint::claim(trainer_, options_.checkpoint);
    if (options_.resume) {
      resume();
    } else if (!options_.checkpoint.empty()) {
      require_new_checkpoints();
    }
    if constexpr (alone) tell_what_is_lost();
    first_step_ = tried_ = committed();
    taken_before_ = trainer_.taken();
    const bool trains = committed() < options_.steps;
    if (trains) {
      if (const std::string told = metrics_.start(first_step_); !told.empty()) say(told);
      stops_ = asked();  // and no rank's step waits for what the metrics begin with
      try {
        take_steps();
      } catch (const reef::Error& error) {
        leave_what_there_is(dynamic_cast<const reef::NonFiniteError*>(&error) != nullptr && !alone);
        throw;
      }
    } else {
      say(reef::concat("no step to take: there are ", committed(), " of --steps ", options_.steps));
    }
    return finish();
  }

private:
  /// Until the last step, or until the ranks have agreed to stop after one.
  void take_steps() {
    while (committed() < options_.steps && !stops_) {
      const bool meets = !alone || trainer_.turn() > 0;
      const reef::StepResult result = trainer_.step();
      stepped_ = true;
      metrics_.note(result);
      count_skipped(result);
      const bool saves = due(result, options_.checkpoint_every) && !options_.checkpoint.empty();
      const bool evaluates = options_.eval_every > 0 && due(result, options_.eval_every);
      if ((meets || saves) && !evaluates) tell();
      if (saves) checkpoint();  // before what takes long
      if (evaluates && result.step == options_.steps) return bar_.finish();  // as finish() does
      if (!evaluates) continue;
      if (const auto loss = evaluate()) metrics_.note_validation(*loss);
      tell();
    }
    if (alone) tell();
    bar_.finish();
  }

  [[nodiscard]] bool first() const { return ranks_.rank() == 0; }
  [[nodiscard]] std::int64_t committed() const { return trainer_.progress_state().committed; }
  [[nodiscard]] std::int64_t tokens_a_step() const {
    return static_cast<std::int64_t>(trainer_.plan().micro_batches_of_step()) * config_.batch *
           options_.context;
  }
  void say(const std::string& text) {
    if (first()) bar_.say(text);
  }

  // -- before the first step ---------------------------------------------------------------------

  /// What was given, or Reef's own sources.
  std::vector<std::filesystem::path> files() {
    say(reef::concat("reef-train ", reef::version, ": ", options_.recipe, " on ", ranks_.size(),
                     " ranks"));
    if (!options_.data.empty()) return {options_.data.begin(), options_.data.end()};
    OwnText text = own_text();
    say("data: " + text.description);
    return std::move(text.files);
  }

  [[nodiscard]] reef::nn::GptConfig model_config() const {
    reef::nn::GptConfig config;
    config.layers = options_.layers;
    config.heads = options_.heads;
    config.channels = options_.channels;
    config.vocabulary = tokenizer_.vocabulary();
    config.padded_vocabulary = (config.vocabulary + 63) / 64 * 64;
    config.context = options_.context;
    config.batch = options_.batch > 0 ? options_.batch
                                      : std::max<std::int64_t>(
                                            1, 1024 / std::max<std::int64_t>(1, options_.context));
    config.dropout = options_.dropout;
    if (!options_.init.empty()) {
      // All positions that the file has, and no padding: the logits of a trained model can lie far
      // below the zeros that padding gives.
      const reef::nn::GptConfig file = reef::nn::Gpt2File(options_.init).config();
      require_heads(config_beside(options_.init));
      config.context = file.context;
      config.sequence = options_.context;
      config.padded_vocabulary = 0;
      config.bias = file.bias;
    }
    require_place_of_export(config);
    return config;
  }

  /// No tensor says how many heads there are, but what Hugging Face lays beside them does.
  void require_heads(const std::filesystem::path& beside) const {
    if (!exists(beside)) return;
    const std::int64_t heads = reef::nn::read_gpt2_config(beside).heads;
    if (heads != options_.heads) {
      throw reef::OptionError("--model has ", options_.heads, " heads, ", beside.string(), " says ",
                              heads, ".\n  fix: --model LAYERSx", heads, "xCHANNELS.");
    }
  }

  /// Found before the training rather than after it: a config.json of something else is not replaced.
  void require_place_of_export(const reef::nn::GptConfig& config) const {
    const std::filesystem::path beside = config_beside(options_.export_file);
    if (options_.export_file.empty() || !exists(beside)) return;
    try {
      const reef::nn::GptConfig found = reef::nn::read_gpt2_config(beside);
      if (found.layers == config.layers && found.heads == config.heads &&
          found.channels == config.channels && found.vocabulary == config.vocabulary &&
          found.context == config.context) {
        return;
      }
    } catch (const reef::Error&) {  // not of a GPT-2 at all
    }
    throw reef::OptionError("--export writes a config.json beside the weights, but ",
                            beside.string(), " is not of this model.\n  fix: another folder.");
  }

  typename TrainerType::Options trainer_options() {
    typename TrainerType::Options result;
    result.micro_batches = {options_.micro_batches};
    result.accumulation = options_.accumulation.value_or(reef::Accumulation::fixed());
    if (options_.sampler == "shared") result.accumulation.order = reef::Accumulation::Order::shared;
    result.seed = options_.seed;
    result.rule.options.weight_decay = options_.weight_decay;
    result.learning_rate.peak = options_.lr;
    result.learning_rate.warmup =
        options_.warmup >= 0 ? options_.warmup : std::min<std::int64_t>(100, options_.steps / 10);
    result.learning_rate.steps = options_.steps;
    result.learning_rate.floor = options_.lr / 10;
    result.clip_norm = options_.clip;
    using reef::optim::NonFinite;
    result.non_finite = options_.non_finite == "skip"     ? NonFinite::skip
                        : options_.non_finite == "ignore" ? NonFinite::ignore
                                                          : NonFinite::stop;
    using reef::Activations;
    if (options_.activations != "planned") {
      result.activations = {options_.activations == "keep"    ? Activations::keep
                            : options_.activations == "stash" ? Activations::stash
                            : options_.activations == "recompute"
                                ? Activations::recompute
                                : Activations::recompute_and_stash};
    }
    result.device.threads = threads_;
    result.device.memory_bytes = options_.device_memory;
    result.device.link_bytes_per_second = options_.device_link * 1e9;
    for (const auto& [rank, factor] : options_.slow) {
      if (rank >= ranks_.size()) {
        throw reef::OptionError("--slow names rank ", rank, ", there are ", ranks_.size(),
                                ".\n  fix: a rank from 0 to ", ranks_.size() - 1, ".");
      }
      if (rank == ranks_.rank()) result.device.slowdown = factor;
    }
    result.communication.deadline = options_.deadline;
    if (!options_.network.empty()) {
      result.communication.network = reef::comm::read_network(options_.network, ranks_.size());
    }
    result.trace = &sink_;
    if (ranks_.size() > 1) result.alike = {alike_of_data()};
    if (!options_.profile.empty()) {
      result.profile = profile(result.device);
      if (options_.device_memory == 0) {
        say("profile: without --device-memory there is nothing to plan by it");
      }
    }
    if (TrainerType::Swap::home_is_host && options_.device_memory > 0) {
      say(reef::concat("swapped: planning how the model passes through ",
                       reef::format_bytes(options_.device_memory)));
    }
    if constexpr (requires { result.sync.every; }) set_exchange(result.sync);
    return result;
  }

  /// The text by its tokens, whatever its files are called.
  reef::comm::Alike alike_of_data() {
    const std::string value =
        reef::concat(data_.training().size(), " ", tokenizer_.unit(), "s and ",
                     data_.validation().size(), " held out, checksum ", data_.fingerprint());
    const std::string files = options_.data.size() == 1 ? options_.data.front()
                              : options_.data.empty()
                                  ? std::string("Reef's own sources")
                                  : reef::concat(options_.data.size(), " files");
    return {"--data", value, reef::concat(files, " (", value, ")")};
  }

  /// What is there, or what the device does, an operator at a time.
  reef::profile::Profile profile(const typename Device::Options& device) {
    if (std::filesystem::exists(options_.profile)) return reef::profile::load(options_.profile);
    if (ranks_.size() > 1) {
      throw reef::OptionError(
          "--profile ", options_.profile, " is not there.\n  why: ", ranks_.size(),
          " ranks would measure beside each other.\n  fix: measure it first, with "
          "one rank and --steps 1.");
    }
    say("profile: measuring the model's operators");
    Device measured_on(device);
    const auto model = reef::nn::gpt<Device, T>(config_, threads_);
    reef::graph::MeasureOptions options;
    options.classes = static_cast<std::int32_t>(config_.vocabulary);
    auto measured = reef::graph::measure(measured_on, model, options);
    reef::profile::save(measured, options_.profile);
    say("profile: wrote " + options_.profile);
    return measured;
  }

  /// The options of DiLoCo.
  void set_exchange(auto& exchange) const {
    using Overlap = reef::run::Exchange::Overlap;
    exchange.every = options_.sync_every;
    exchange.fragments = options_.fragments;
    exchange.overlap = options_.overlap == "eager" ? Overlap::eager
                       : options_.overlap == "mix" ? Overlap::mix
                                                   : Overlap::none;
    exchange.mix = options_.mix;
    exchange.outer_learning_rate = options_.outer_lr;
    exchange.outer.options.momentum = options_.outer_momentum;
  }

  void introduce() {
    const reef::graph::Dag& dag = trainer_.model().dag();
    const std::int64_t tokens = tokens_a_step();
    say(reef::concat("model: ", dag.parameter_count(), " parameters, ", config_.layers, " layers, ",
                     config_.heads, " heads, ", config_.channels, " channels, context ",
                     options_.context));
    const std::size_t held_out = data_.validation().size();
    const std::size_t first = evaluated().size();
    say(reef::concat("text: ", data_.training().size(), " ", tokenizer_.unit(), "s to train on, ",
                     held_out, " held out",
                     first < held_out ? reef::concat(" (the first ", first, " are evaluated)") : "",
                     ", vocabulary of ", tokenizer_.vocabulary()));
    for (const std::string& note : data_.notes()) say(note);
    say(reef::concat("step: ", tokens, " tokens; ", threads_, " thread(s) a rank, ",
                     reef::format_bytes(trainer_.device().memory().used), " a device, ",
                     reef::name_of(reef::element_of<T>), ", ",
                     reef::device::name_of(reef::device::instruction_set())));
    if constexpr (TrainerType::Swap::home_is_host) tell_swapping();
  }

  /// How the model passes through the device.
  void tell_swapping() {
    const reef::run::StepPlan& plan = trainer_.plan();
    std::string between;
    const auto count = [&](reef::Activations of, const char* what) {
      int segments = 0;
      for (std::size_t s = 0; s < plan.segments.size(); ++s)
        segments += plan.activations_of(s) == of;
      if (segments > 0) between += reef::concat(between.empty() ? "" : ", ", segments, " ", what);
    };
    count(reef::Activations::keep, "kept");
    count(reef::Activations::stash, "in host memory");
    count(reef::Activations::recompute, "computed again");
    count(reef::Activations::recompute_and_stash, "computed again from host memory");
    std::string slots = reef::concat(plan.swapping.slots, " slots, ");
    if (plan.stashes_some())
      slots += reef::concat(plan.swapping.stash_slots, " for what goes to host memory, ");
    say(reef::concat(
        "swapped: ", plan.segments.size(), " segments, of which ", plan.swapping.stays,
        " live on the device, through ", slots,
        plan.swapping.streams ? "micro-batch by micro-batch" : "all micro-batches of each",
        "; between forward and backward: ", between));
  }

  /// Rank by rank the same file, the same weights.
  void load(const std::string& path) {
    const reef::nn::Gpt2File file(path);
    file.read<Sum>(trainer_.model().dag(), config_.vocabulary,
                   [&](const std::string& name, const std::vector<Sum>& values) {
                     trainer_.set_parameter(name, values);
                   });
    const std::int64_t rows = file.config().vocabulary;
    say(reef::concat("weights: from ", file.path().string(),
                     rows == config_.vocabulary
                         ? std::string()
                         : reef::concat(", the first ", config_.vocabulary, " of its ", rows,
                                        " tokens: the rest pad its vocabulary")));
  }

  void resume() {
    compare_with_checkpoint();
    const auto facts = reef::checkpoint::resume(trainer_, options_.checkpoint);
    if (!facts) {
      say("resume: no complete checkpoint in " + options_.checkpoint + ", starting at step 1");
      return;
    }
    metrics_.resume(reef::io::require<std::uint64_t>(*facts, "tokens", "the checkpoint"),
                    reef::io::value_or<double>(*facts, "seconds", 0, "the checkpoint"));
    say(reef::concat("resume: after step ", committed()));
  }

  /// Refuses on all ranks what no run goes on with, and says what goes on otherwise than it was. A manifest
  /// that cannot be read is left to the resume.
  void compare_with_checkpoint() {
    std::string refusal;
    const auto steps = reef::io::complete_checkpoints(options_.checkpoint);
    if (first() && !steps.empty()) {
      try {
        const auto folder = reef::io::checkpoint_folder(options_.checkpoint, steps.back());
        const CheckpointFacts was(reef::io::read_manifest(folder).facts);
        compare_with(was, static_cast<std::int64_t>(steps.back()));
      } catch (const reef::OptionError& error) {
        refusal = error.what();
      } catch (const reef::Error&) {  // the resume tells it, on all ranks
      }
    }
    refusal = reef::comm::broadcast_text(trainer_.progress(), "comparison with the checkpoint",
                                         std::move(refusal));
    if (refusal.empty()) return;
    reef::comm::barrier(trainer_.progress(), "the comparison is told");  // they end together
    throw reef::OptionError(refusal);
  }

  void compare_with(const CheckpointFacts& was, std::int64_t step) {
    const std::string differs = was.differences(options_.of_the_run);
    const auto require = [&](const char* what, std::int64_t before, std::int64_t now) {
      if (before == now) return;
      throw reef::OptionError(
          "the checkpoint was written with another ", what, ": ", before, ", this run has ", now,
          differs.empty() ? "" : ".\n  options that differ: ", differs, ".\n  fix: give the same.");
    };
    require("text (--data, --tokenizer; its checksum)", was.text, data_.fingerprint());
    require("--batch", was.batch, config_.batch);
    require("--context", was.context, options_.context);
    was.require_model(options_.of_the_run);
    if (!differs.empty()) say("warning: options differ from the checkpoint's: " + differs);
    if (step >= options_.steps) return;  // nothing goes on
    if (was.tokens_a_step != 0 && was.tokens_a_step != tokens_a_step()) {
      say(reef::concat("warning: a step has ", tokens_a_step(), " tokens on ", ranks_.size(),
                       " rank(s), it had ", was.tokens_a_step, " on ", was.ranks,
                       " before the checkpoint"));
    }
    const double before = was.learning_rate ? was.learning_rate->at(step) : 0;
    const double now = trainer_.options().learning_rate.at(step);
    if (was.learning_rate && before != now) {
      const auto digits = [](double rate) { return reef::concat(static_cast<float>(rate)); };
      say(reef::concat("warning: the learning rate of step ", step + 1, " is ", digits(now),
                       ", by the checkpoint's options it was to be ", digits(before)));
    }
  }

  /// A later resume takes the checkpoint of the most steps: while this run has made fewer, another run's.
  void require_new_checkpoints() {
    const auto steps = reef::io::complete_checkpoints(options_.checkpoint);
    std::uint64_t found = steps.empty() ? 0 : steps.back() + 1;
    reef::comm::broadcast(trainer_.progress(), "checkpoints that are there", 0,
                          std::span(&found, 1));
    if (found == 0) return;
    throw reef::OptionError(
        "--checkpoint ", options_.checkpoint, " holds another run's checkpoint, after step ",
        found - 1,
        ": a later --resume would take that for this run's.\n  fix: --resume to "
        "go on from it, another directory, or remove this one.");
  }

  /// A warning is for what a longer run loses less of: some steps are lost whatever --steps is.
  void tell_what_is_lost() {
    using Optim = typename TrainerType::Optim;
    const std::int64_t began = trainer_.progress_state().began;
    const auto lost = [&](std::int64_t steps) {
      return Optim::unexchanged(trainer_.plan(), began, steps);
    };
    const std::int64_t steps = options_.steps;
    const std::int64_t more = Optim::longer_run(trainer_.plan(), began, steps);
    if (more == steps) return;
    say(reef::concat("warning: not all weights at the end will have the last ", lost(steps),
                     " steps, since their exchange comes later. fix: --steps ", more,
                     ", where it is ", lost(more)));
  }

  /// What of the held-out tokens the loss is of: the first --eval-tokens of them.
  [[nodiscard]] reef::data::TokenView evaluated() const {
    const reef::data::TokenView& all = data_.validation();
    // One more than targets, which begin with the second.
    const auto wanted = static_cast<std::uint64_t>(options_.eval_tokens);
    if (wanted == 0 || wanted >= all.size()) return all;
    return all.part(0, static_cast<std::size_t>(wanted) + 1);
  }

  // -- while training ----------------------------------------------------------------------------

  /// Whether a signal has come to any rank, which is told once. All ranks.
  bool asked() {
    if (asked_ || !stop_.agree(trainer_.progress())) return asked_;
    asked_ = true;
    const auto signals = reef::comm::gather_numbers(trainer_.progress(), "signals", stop_.signal());
    std::string text;
    for (std::size_t rank = 0; rank < signals.size(); ++rank) {
      if (signals[rank] == 0) continue;
      text += reef::concat(text.empty() ? "" : ", ", "signal ", signals[rank], " at rank ", rank);
    }
    say(reef::concat("stopping after step ", committed(), ": ", text));
    return true;
  }

  void count_skipped(const reef::StepResult& result) {
    constexpr int most = 100;
    skipped_ = result.not_finite.empty() ? 0 : skipped_ + 1;
    if (result.not_finite.empty()) return;
    if (skipped_ == most) throw reef::NonFiniteError(most, " steps in a row: ", result.not_finite);
    say("skipped: " + result.not_finite.substr(0, result.not_finite.find('\n')));
  }

  void tell() {
    stops_ = metrics_.tell(trainer_.progress(), stop_.asked()) || stops_;
    if (first()) bar_.update(metrics_.standing(options_.steps));
  }

  /// Every so many steps; of 0, and at the end, after the last.
  [[nodiscard]] bool due(const reef::StepResult& result, std::int64_t every) const {
    if (!result.committed) return false;
    return result.step == options_.steps || (every > 0 && result.step % every == 0);
  }

  /// A checkpoint that fails is told, and the run goes on: what there is after it can still be saved.
  void checkpoint() {
    tried_ = committed();
    const auto fails = [&](const std::string& why) {
      failures_.add("--checkpoint " + options_.checkpoint,
                    reef::concat("after step ", committed(), ": ", why));
    };
    if (const std::string weight = trainer_.weight_not_finite(); !weight.empty())
      return fails(reef::concat("not finite: ", weight, "; nothing is saved"));
    try {
      const auto& rate = trainer_.options().learning_rate;
      const auto folder = reef::checkpoint::save(trainer_, options_.checkpoint,
                                                 {{"text", data_.fingerprint()},
                                                  {"batch", config_.batch},
                                                  {"context", options_.context},
                                                  {"options", options_.of_the_run},
                                                  {"tokens_a_step", tokens_a_step()},
                                                  {"learning_rate",
                                                   {{"peak", rate.peak},
                                                    {"warmup", rate.warmup},
                                                    {"steps", rate.steps},
                                                    {"floor", rate.floor}}},
                                                  {"tokens", metrics_.tokens()},
                                                  {"seconds", metrics_.seconds()}});
      say("checkpoint: " + folder.string());
    } catch (const reef::FileError& error) {  // of all ranks
      return fails(error.what());
    }
    if (options_.checkpoint_keep == 0 || !first()) return;
    failures_.attempt("--checkpoint-keep", [&] {
      reef::io::remove_old_checkpoints(options_.checkpoint, options_.checkpoint_keep);
    });
  }

  /// How many rounds of all ranks' micro-batches go over what is evaluated.
  [[nodiscard]] std::int64_t rounds() const {
    const auto windows = reef::data::Validation(evaluated(), options_.context).windows();
    const auto round = trainer_.plan().micro_batches_in_all() * config_.batch;
    return (windows + round - 1) / round;
  }

  /// The held-out loss, told; nothing where a signal came before all was evaluated. All ranks.
  std::optional<double> evaluate() {
    const std::int64_t all = rounds();
    if (committed() >= options_.steps && all > 1) {
      say(reef::concat("evaluating ", evaluated().size() - 1, " held-out ", tokenizer_.unit(),
                       "s"));
    }
    const double loss = trainer_.evaluate(all, [&](std::int64_t done) {
      if (first()) bar_.show(reef::concat("evaluating: ", 100 * done / all, "%"));
      return !asked();
    });
    if (asked_) {
      say("held-out loss: not known, since the evaluation was stopped");
      return std::nullopt;
    }
    say(reef::concat("held-out loss: ", std::to_string(loss), " nats/", tokenizer_.unit(),
                     " after ", committed(), " steps, ", clock_text(metrics_.seconds())));
    return loss;
  }

  /// Of a run that failed: all that was committed where all ranks know that they have failed, else the timeline
  /// of this one.
  void leave_what_there_is(bool together) {
    try {
      bar_.finish();
      if (together) {
        metrics_.tell(trainer_.progress(), false);
        save_what_is_dear();
      }
      const auto files =
          metrics_.write_timeline(together ? &trainer_.progress() : nullptr, options_, {}, {}, "");
      if (together) reef::comm::barrier(trainer_.progress(), written);
      tell_written(files);
    } catch (const std::exception& error) {  // the one before says more
      say(error.what());
    }
  }

  // -- at the end --------------------------------------------------------------------------------

  /// First what is dear: a checkpoint of the last step, if it has none, and the weights. Then what the run
  /// tells about itself. What fails takes nothing else with it. Returns an exit status, on all ranks.
  int finish() {
    std::vector<std::string> files;
    asked();
    save_what_is_dear();

    std::optional<double> validation;
    if (!asked()) validation = evaluate();
    if (validation) metrics_.note_validation(*validation);
    metrics_.tell(trainer_.progress(), false);
    const bool finite = !validation || reef::is_finite(*validation);
    if (!finite) {
      failures_.add("the evaluation",
                    "the held-out loss after the last step is not finite.\n  fix: a lower learning "
                    "rate or weight decay, and start from an earlier checkpoint.");
    }
    std::vector<double> counts;
    if (stepped_) {
      counts = given();
      metrics_.summarise(trainer_.progress(), trainer_.device().memory().peak, counts, validation);
      if (!options_.metrics.empty() && !metrics_.broken()) files.push_back(options_.metrics);
    }
    std::string sample;
    if (!asked() && finite) sample = sample_text();
    if (stepped_) {
      for (const std::string& file :
           metrics_.write_timeline(&trainer_.progress(), options_, counts, validation, sample)) {
        files.push_back(file);
      }
    }
    tell_written(files);
    if (first() && failures_.any()) {
      std::fprintf(stderr, "reef-train: %s\n", failures_.text().c_str());
      std::fflush(stderr);
    }
    float failed = failures_.any() ? 1 : 0;
    reef::comm::all_reduce(trainer_.progress(), written, std::span(&failed, 1));
    if (failed > 0) return EXIT_FAILURE;
    return asked() ? stopped_status : EXIT_SUCCESS;
  }

  /// A checkpoint of the last step, if it has none, and the weights.
  void save_what_is_dear() {
    const bool steps_taken = committed() > first_step_;
    if (!options_.checkpoint.empty() && steps_taken && tried_ != committed()) checkpoint();
    if (!options_.export_file.empty()) export_weights();
  }

  void tell_written(const std::vector<std::string>& files) {
    for (const std::string& file : files) say("wrote " + file);
  }

  /// What the model adds to the prompt, on rank 0.
  std::string sample_text() {
    std::string sample;
    if (!first() || options_.prompt_tokens == 0) return sample;
    failures_.attempt("the sample", [&] {
      try {
        sample = continued_prompt();
        std::printf("---\n%s\n---\n", sample.c_str());
        std::fflush(stdout);
      } catch (const reef::MemoryError& error) {
        say(std::string("no sample: ") + error.what());
      }
    });
    return sample;
  }

  /// The micro-batches of a step, by rank; where ranks decide themselves, the mean over this run.
  std::vector<double> given() {
    const auto& plan = trainer_.plan();
    if (plan.adapts) {
      const auto steps = static_cast<double>(std::max<std::int64_t>(1, committed() - first_step_));
      return reef::comm::gather_numbers(
          trainer_.progress(), "micro-batches",
          static_cast<double>(trainer_.taken() - taken_before_) / steps);
    }
    std::vector<double> counts(plan.micro_batches.begin(), plan.micro_batches.end());
    for (double& count : counts) count *= plan.stages;
    return counts;
  }

  /// Weights that are of use to somebody. All ranks; rank 0 writes.
  void export_weights() {
    const std::string what = "--export " + options_.export_file;
    if (committed() == 0) return say(what + ": no step was taken, there is nothing to export");
    if (const std::string weight = trainer_.weight_not_finite(); !weight.empty())
      return failures_.add(what, reef::concat("not finite: ", weight, "; no weights are exported"));
    // A first look before the whole evaluation: finite weights may still be of no use.
    if (!reef::is_finite(trainer_.evaluate(1))) {
      return failures_.add(what, "the held-out loss is not finite; no weights are exported");
    }
    std::string aside;
    const auto write = [&] {
      aside = write_in_place(options_.export_file, [&] { write_weights(); });
    };
    if (first() && failures_.attempt(what, write)) say("wrote " + options_.export_file + aside);
  }

  /// Together they are what GPT2LMHeadModel.from_pretrained reads. A config.json that is there stays,
  /// since it may say more.
  void write_weights() {
    reef::nn::write_gpt2<T>(options_.export_file, trainer_.model().dag(), config_.vocabulary,
                            [&](const std::string& name) {
                              const std::vector<Sum> values = trainer_.parameter(name);
                              return std::vector<T>(values.begin(), values.end());
                            });
    const std::filesystem::path beside = config_beside(options_.export_file);
    if (!exists(beside)) reef::nn::write_gpt2_config(beside, config_);
  }

  /// The prompt, and what the model adds to it.
  std::string continued_prompt() {
    reef::nn::GptConfig config = config_;
    config.batch = 1;
    const auto model = reef::nn::gpt<Device, T>(config, trainer_.device().threads());
    std::vector<std::int32_t> prompt = tokenizer_.encode(options_.prompt.value_or("\n"));
    if (prompt.empty()) prompt = tokenizer_.encode("\n");
    return tokenizer_.decode(reef::generate(trainer_, model, prompt,
                                            {.tokens = options_.prompt_tokens,
                                             .vocabulary = config.vocabulary,
                                             .seed = options_.seed,
                                             .proceed = [this] { return !stop_.asked(); }}));
  }

  int skipped_ = 0;              // in a row
  std::int64_t first_step_ = 0;  // of this run
  std::int64_t tried_ = 0;  // the step after which a checkpoint was written, or should have been
  bool stepped_ = false;    // at all
  bool stops_ = false;      // all ranks know that no more steps are to be taken
  bool asked_ = false;      // and that it is for a signal
  std::uint64_t taken_before_ = 0;
  TrainOptions options_;
  const reef::comm::StopRequest& stop_;
  reef::comm::Communicator ranks_;
  Progress bar_;
  Failures failures_{[this](const std::string& text) { say(text); }};
  reef::trace::Sink sink_;
  Tokenizer tokenizer_;
  TrainingData data_;
  reef::nn::GptConfig config_;
  int threads_;
  TrainerType trainer_;
  Metrics metrics_;
};

/// Trains with these policies, in the precision that the options name.
template <class... Policies>
int run(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  if (options.precision == "bf16") {
    return Run<reef::Trainer<Policies..., reef::precision::Bf16>>(options, stop).train();
  }
  return Run<reef::Trainer<Policies...>>(options, stop).train();
}

}  // namespace reef_examples
