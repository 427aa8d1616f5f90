#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/codec/chosen.hpp>
#include <reef/comm/at_work.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/node_cores.hpp>
#include <reef/comm/stop_request.hpp>
#include <reef/compress/channels.hpp>
#include <reef/core/policy.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/graph/hash.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host/numerics.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/progress.hpp"
#include "../support/text_source.hpp"
#include "../support/tokenizer.hpp"
#include "accuracy.hpp"
#include "agreed_stop.hpp"
#include "checkpoint_facts.hpp"
#include "edge_recorder.hpp"
#include "failures.hpp"
#include "graph_model.hpp"
#include "introduction.hpp"
#include "metrics.hpp"
#include "options.hpp"
#include "resuming.hpp"
#include "sample.hpp"
#include "saving.hpp"
#include "setup.hpp"
#include "trainer_options.hpp"

namespace reef_examples {

/// One training run from the command line, on this rank.
template <class TrainerType>
class Run {
  using Device = typename TrainerType::Device;
  using T = typename TrainerType::T;
  // Ranks meet in some steps only.
  static constexpr bool alone = reef::optim::periodic_policy<typename TrainerType::Optim>;

  // Of a failure all ranks know. Who ended first would end rank 0, before it has written its files.
  static constexpr const char* written = "the files are written";

public:
  Run(TrainOptions options, const reef::comm::StopRequest& stop)
      : options_(std::move(options)),
        stop_(stop),
        sink_(ranks_.rank()),
        edges_(options_, ranks_.rank(), ranks_.size(), failures_),
        tokenizer_(options_.tokenizer),
        prompt_(prompt_of(options_, tokenizer_)),
        data_(files(), tokenizer_, options_.data_options()),
        config_(model_config(options_, tokenizer_.vocabulary())),
        threads_(options_.threads > 0 ? options_.threads : reef::comm::share_of_cores(ranks_)),
        trainer_(model_of_rows<Device, T>(options_, config_, threads_),
                 training_source(data_, options_.rows(), options_.seed),
                 trainer_options<TrainerType>(setup()),
                 validation_source(held_out(), held_out_pairs(), options_.rows()),
                 ranks_),
        metrics_(options_, sink_, trainer_.ranks(), alone, failures_),
        saving_(
            trainer_, setup(), metrics_, [this] { return facts(); }, failures_) {}

  /// Returns an exit status.
  int train() {
    const reef::comm::AtWork at_work(trainer_.progress(), "the run");  // what a rank does between steps may take its time
    const Setup run = setup();
    introduce(trainer_, run);
    if (options_.planned_vocabulary > 0 && options_.planned_vocabulary != config_.vocabulary) {
      say(reef::concat("plan: it is of a vocabulary of ", options_.planned_vocabulary, ", here it is ", config_.vocabulary,
                       ": a step takes another time than it says"));
    }
    if (!options_.planned_otherwise.empty()) {
      say(reef::concat("plan: ", options_.plan, " is for ", options_.planned_otherwise,
                       ": a step takes another time, and other memory, than it says"));
    }
    // Before a directory is made: weights that cannot be read end the run.
    if (!options_.init.empty() && !goes_on()) load_weights(trainer_, run);
    if (!options_.init_adapter.empty() && !goes_on()) load_adapter(trainer_, run);
    if (!options_.checkpoint.empty()) reef::checkpoint::claim(trainer_, options_.checkpoint);
    if (options_.resume) {
      resume(trainer_, run, facts(), metrics_);
    } else if (!options_.checkpoint.empty()) {
      require_new_checkpoints(trainer_, run);
    }
    if constexpr (alone) tell_what_is_lost(trainer_, run);
    first_step_ = committed();
    edges_.start(first_step_);
    // A checkpoint says what the data was, also where that can no longer be read.
    if (!options_.checkpoint.empty()) static_cast<void>(data_.fingerprint());
    saving_.begin();
    taken_before_ = trainer_.taken();
    const bool trains = committed() < options_.steps;
    if (trains) {
      if (const std::string told = metrics_.start(first_step_); !told.empty()) say(told);
      stops_ = ends();  // and no rank's step waits for what the metrics begin with
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
      const bool meets = !alone || trainer_.variant() > 0;
      edges_.begin_step();
      const reef::StepResult result = trainer_.step();
      stepped_ = true;
      metrics_.note(result);
      metrics_.note_links(trainer_.links());
      if (const auto ratios = ratios_.take()) metrics_.note_ratios(*ratios);
      if (result.committed) record_edges(result.step);
      count_skipped(result);
      const bool saves = due(result, options_.checkpoint_every) && !options_.checkpoint.empty();
      const bool evaluates = options_.eval_every > 0 && due(result, options_.eval_every);
      if ((meets || saves) && !evaluates) tell();
      if (saves) saving_.checkpoint();  // before what takes long
      if (evaluates && result.step == options_.steps) return bar_.finish();  // as finish() does
      if (!evaluates) continue;
      if (const auto loss = evaluate()) note(*loss);
      tell();
    }
    if (alone) tell();
    bar_.finish();
  }

  /// From a checkpoint. Where ranks do not see the same, the resume refuses it.
  [[nodiscard]] bool goes_on() const {
    return options_.resume && !reef::io::complete_checkpoints(options_.checkpoint).empty();
  }
  [[nodiscard]] bool first() const { return ranks_.rank() == 0; }
  [[nodiscard]] std::int64_t committed() const { return trainer_.progress_state().committed; }
  void say(const std::string& text) {
    if (first()) bar_.say(text);
  }

  [[nodiscard]] Say says() {
    return [this](const std::string& text) { say(text); };
  }
  [[nodiscard]] Setup setup() {
    return {options_, ranks_, config_, tokenizer_, prompt_, data_, threads_, sink_, edges_, ratios_, says()};
  }
  [[nodiscard]] reef::data::TokenView held_out() const {
    return evaluated(data_.validation(), options_);
  }
  [[nodiscard]] std::span<const reef::data::TokenPair> held_out_pairs() const {
    return evaluated_pairs(data_.validation_pairs(), options_);
  }
  /// What a checkpoint says of this run.
  [[nodiscard]] CheckpointFacts facts() {
    CheckpointFacts facts;
    facts.text = data_.fingerprint();
    facts.batch = config_.batch;
    facts.context = options_.context;
    facts.ranks = ranks_.size();
    facts.tokens_a_step = tokens_a_step(trainer_, setup());
    facts.learning_rate = trainer_.options().learning_rate;
    facts.model = reef::graph::hash_of(trainer_.model().dag());
    facts.instruction_set = reef::device::name_of(reef::device::instruction_set());
    facts.numerics = reef::nn::host::text_of_numerics_class();
    facts.options = options_.of_the_run;
    return facts;
  }

  std::vector<std::filesystem::path> files() {
    say(reef::concat("reef-train ", reef::version, ": ", options_.recipe, " on ", ranks_.size(),
                     ranks_.size() == 1 ? " rank" : " ranks"));
    return files_of(options_, says());
  }

  // -- while training ----------------------------------------------------------------------------

  /// Whether a signal, or data that has changed, ends the run on all ranks. All ranks.
  bool ends() { return ending_.agree(trainer_.progress(), committed()); }

  void count_skipped(const reef::StepResult& result) {
    constexpr int most = 100;
    skipped_ = result.not_finite.empty() ? 0 : skipped_ + 1;
    if (result.not_finite.empty()) return;
    if (skipped_ == most) throw reef::NonFiniteError(most, " steps in a row: ", result.not_finite);
    say("skipped: " + result.not_finite.substr(0, result.not_finite.find('\n')));
  }

  void tell() {
    stops_ = metrics_.tell(trainer_.progress(), ending_.is_wanted_here()) || stops_;
    if (first()) bar_.update(metrics_.standing(options_.steps));
  }

  /// Every so many steps; of 0, and at the end, after the last.
  [[nodiscard]] bool due(const reef::StepResult& result, std::int64_t every) const {
    if (!result.committed) return false;
    return result.step == options_.steps || (every > 0 && result.step % every == 0);
  }

  /// How many rounds of all ranks' micro-batches go over what is evaluated.
  [[nodiscard]] std::int64_t rounds() const {
    const std::int64_t windows = rows_of(held_out(), held_out_pairs(), options_.rows());
    const auto round = trainer_.plan().micro_batches_in_all() * config_.batch;
    return (windows + round - 1) / round;
  }

  /// The held-out loss, told; nothing where the run ends before all was evaluated. All ranks.
  std::optional<double> evaluate() {
    if (ends()) return std::nullopt;
    const std::int64_t all = rounds();
    if (committed() >= options_.steps && all > 1) {
      say(reef::concat("evaluating ", held_out().size() - 1, " held-out ", tokenizer_.unit(), "s"));
    }
    const double loss = trainer_.evaluate(all, [&](std::int64_t done) {
      if (first()) bar_.show(reef::concat("evaluating: ", 100 * done / all, "%"));
      return !ends();
    });
    if (ending_.is_agreed()) {
      say("held-out loss: not known, since the evaluation was stopped");
      return std::nullopt;
    }
    say(reef::concat("held-out loss: ", std::to_string(loss), " nats/",
                     options_.classes > 0 ? std::string("label") : std::string(tokenizer_.unit()),
                     " after ", committed(), " steps, ", clock_text(metrics_.seconds())));
    return loss;
  }

  /// Notes the held-out loss of an evaluation, and of texts with labels how many classes are told right. All ranks.
  void note(double loss) {
    metrics_.note_validation(loss);
    if (options_.classes == 0 || !reef::is_finite(loss)) return;
    const auto accuracy = class_accuracy(trainer_, setup(), held_out_pairs(), [this] { return !ends(); });
    if (!accuracy) return;
    metrics_.note_accuracy(accuracy->share());
    say(reef::concat("held-out accuracy: ", accuracy->share(), ", ", accuracy->right, " of ", accuracy->texts,
                     " texts"));
  }

  /// Of a run that failed: all that was committed where all ranks know that they have failed, else the timeline
  /// of this one.
  void leave_what_there_is(bool together) {
    try {
      bar_.finish();
      if (together) {
        metrics_.tell(trainer_.progress(), false);
        ending_.look();
        ends();
        saving_.save_what_is_dear(!ending_.is_lost());
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
    ending_.look();
    ends();
    saving_.save_what_is_dear(!ending_.is_lost());

    const std::optional<double> validation = evaluate();
    if (validation) note(*validation);
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
      const std::string links = metrics_.summarise(trainer_.progress(), trainer_.device().memory().peak, counts, validation,
                                                   trainer_.links());
      if (!links.empty()) say("links, of all ranks:\n" + links.substr(0, links.size() - 1));
      if (!options_.metrics.empty() && !metrics_.broken()) files.push_back(options_.metrics);
    }
    std::string sample;
    if (!ends() && finite) sample = sample_text(trainer_, setup(), stop_, failures_);
    ends();  // a signal may have ended it
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
    return ending_.is_asked() ? stopped_status : EXIT_SUCCESS;
  }

  void record_edges(std::int64_t step) {
    if (const std::string file = edges_.end_step(step); !file.empty()) say("wrote " + file);
  }

  void tell_written(const std::vector<std::string>& files) {
    for (const std::string& file : files) say("wrote " + file);
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
    std::vector<double> counts;
    for (int rank = 0; rank < trainer_.ranks(); ++rank) {
      counts.push_back(plan.phases_per_step * plan.micro_batches_of(rank));
    }
    return counts;
  }

  int skipped_ = 0;              // in a row
  std::int64_t first_step_ = 0;  // of this run
  bool stepped_ = false;         // at all
  bool stops_ = false;           // all ranks know that no more steps are to be taken
  std::uint64_t taken_before_ = 0;
  TrainOptions options_;
  const reef::comm::StopRequest& stop_;
  reef::comm::Communicator ranks_;
  Progress bar_;
  Failures failures_{[this](const std::string& text) { say(text); }};
  reef::trace::Sink sink_;
  EdgeRecorder edges_;
  RatioLog ratios_;
  Tokenizer tokenizer_;
  std::vector<std::int32_t> prompt_;
  TrainingData data_;
  AgreedStop ending_{stop_, data_, says(), failures_};
  reef::nn::GptConfig config_;
  int threads_;
  TrainerType trainer_;
  Metrics metrics_;
  Saving<TrainerType> saving_;
};

/// What ranks send goes by codecs that the command line names, unless a recipe has its own.
using AnyCodec = reef::compress::Channels<reef::compress::Activation<reef::codec::Chosen>,
                                          reef::compress::ActivationGradient<reef::codec::Chosen>,
                                          reef::compress::Gradient<reef::codec::Chosen>,
                                          reef::compress::Parameter<reef::codec::Chosen>>;

/// Trains with these policies, in the precision that the options name.
template <class... Policies>
int run(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  if constexpr ((std::is_same_v<reef::policy_tag_of<Policies>, reef::CompressTag> || ...)) {
    if (options.precision == "bf16") {
      return Run<reef::Trainer<Policies..., reef::precision::Bf16>>(options, stop).train();
    }
    return Run<reef::Trainer<Policies...>>(options, stop).train();
  } else {
    return run<Policies..., AnyCodec>(options, stop);
  }
}

}  // namespace reef_examples
