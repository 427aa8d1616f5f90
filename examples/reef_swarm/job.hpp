#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <reef/comm/communicator.hpp>
#include <reef/core/text.hpp>
#include <reef/device/host.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt2_config.hpp>
#include <reef/nn/gpt2_file.hpp>
#include <reef/nn/host/numerics.hpp>
#include <reef/swarm/elastic/averaged.hpp>
#include <reef/swarm/elastic/given_micro_batches.hpp>
#include <reef/swarm/elastic/outer_rounds.hpp>
#include <reef/swarm/elastic/peer_exchange.hpp>
#include <reef/swarm/net/sha256.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/earlier_files.hpp"
#include "../support/text_source.hpp"
#include "../support/tokenizer.hpp"
#include "../support/weight_files.hpp"
#include "data.hpp"
#include "options.hpp"

namespace reef_examples {

inline reef::nn::GptConfig config_of(const JobOptions& options, std::int64_t vocabulary) {
  constexpr std::int64_t multiple = 64;
  reef::nn::GptConfig config;
  config.layers = options.layers;
  config.heads = options.heads;
  config.channels = options.channels;
  config.vocabulary = vocabulary;
  config.padded_vocabulary = (vocabulary + multiple - 1) / multiple * multiple;
  config.context = options.context;
  config.batch = options.batch;
  return config;
}

/// Returns what a job is, for the peers of it to compare. `weights`: as they are before the first round.
inline reef::swarm::Genesis genesis_of(const JobOptions& options, const std::string& name, TrainingData& data,
                                       reef::Training& weights) {
  const auto digest = [](const std::string& text) { return reef::swarm::sha256(std::as_bytes(std::span(text))); };
  reef::swarm::Genesis genesis;
  genesis.job = name;
  genesis.recipe = reef::concat(options.recipe, " adamw, rounds ", options.rounds, ", batch ", options.batch,
                                ", context ", options.context, ", lr ", options.lr, ", warmup ", options.warmup_steps(),
                                ", weight decay ", options.weight_decay, ", clip ", options.clip);
  if (options.recipe == "outer") {
    genesis.recipe += reef::concat(", every ", options.every, ", outer lr ", options.outer_lr, ", outer momentum ",
                                   options.outer_momentum);
  }
  genesis.data = digest(reef::concat(data.training().size(), " tokens, checksum ", data.fingerprint()));
  genesis.update_class = digest(reef::nn::host::text_of_numerics_class());
  genesis.seed = options.seed;
  genesis.global_batch = options.global_batch;
  genesis.codec = options.codec;
  genesis.checkpoint = options.checkpoint_every;
  return reef::swarm::genesis_of(weights, genesis);
}

/// Returns a source that takes so many seconds more for a micro-batch.
inline reef::run::Source paced(reef::run::Source source, double seconds) {
  if (seconds == 0) return source;
  return [source = std::move(source), seconds](std::uint64_t first, std::span<const reef::AnyView> inputs) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return source(first, inputs);
  };
}

/// The rounds of a trainer whose optimizer has the exchange: a step of it is a round.
class AveragedRounds {
public:
  AveragedRounds(const JobOptions& /*options*/, reef::swarm::RoundExchange& exchange) : exchange_(exchange) {}

  template <class Options>
  void give(Options& trainer) const {
    trainer.optim.exchange = &exchange_;
  }
  template <class TrainerType>
  void begin(TrainerType& trainer) {
    step_ = [&trainer] { return trainer.step(); };
  }
  reef::StepResult step() { return step_(); }
  [[nodiscard]] static reef::swarm::StateAccess state(std::int64_t /*piece*/) { return {}; }

private:
  reef::swarm::RoundExchange& exchange_;
  std::function<reef::StepResult()> step_;
};

/// The rounds of a trainer that takes steps of its own between them.
class OuterRoundsOfJob {
public:
  OuterRoundsOfJob(const JobOptions& options, reef::swarm::RoundExchange& exchange)
      : options_(options), exchange_(exchange) {}

  template <class Options>
  void give(Options& trainer) const {
    trainer.next_micro_batch = given_.next();
  }
  template <class TrainerType>
  void begin(TrainerType& trainer) {
    reef::swarm::OuterRounds<>::Options outer;
    outer.every = options_.every;
    outer.outer = reef::optim::Nesterov({.momentum = options_.outer_momentum});
    outer.outer_learning_rate = options_.outer_lr;
    rounds_.emplace(exchange_, trainer, given_, outer);
  }
  reef::StepResult step() {
    const reef::swarm::RoundOutcome outcome = rounds_->round();
    reef::StepResult result;
    result.step = rounds_->applied();
    result.committed = outcome.verdict == reef::swarm::RoundOutcome::Verdict::apply;
    result.loss = outcome.weight > 0 ? outcome.weighted_loss / outcome.weight : 0;
    result.micro_batches = static_cast<std::uint64_t>(outcome.micro_batches);
    result.learning_rate = options_.outer_lr;
    return result;
  }
  [[nodiscard]] reef::swarm::StateAccess state(std::int64_t piece) { return rounds_->state_access(piece); }

private:
  const JobOptions& options_;
  reef::swarm::RoundExchange& exchange_;
  reef::swarm::GivenMicroBatches given_;
  std::optional<reef::swarm::OuterRounds<>> rounds_;
};

/// The rounds of a trainer: an optimizer without an exchange steps on its own in them.
template <class TrainerType>
using RoundsOf = std::conditional_t<requires(typename TrainerType::Options options) { options.optim.exchange; },
                                    AveragedRounds, OuterRoundsOfJob>;

/// A trainer of a job, whose rounds an exchange gives it, and its data.
template <class TrainerType>
class JobTrainer {
public:
  JobTrainer(const JobOptions& options, reef::swarm::RoundExchange& exchange)
      : options_(options),
        tokenizer_(options.tokenizer),
        data_(files_of(options), tokenizer_),
        config_(config_of(options, tokenizer_.vocabulary())),
        rounds_(options, exchange),
        trainer_(reef::nn::gpt<reef::device::Host, float>(config_, threads()),
                 paced(training_source(data_, {.context = options.context}, options.seed), options.pace),
                 trainer_options(), {}, reef::comm::Communicator::alone()) {
    rounds_.begin(trainer_);
  }

  [[nodiscard]] TrainerType& trainer() { return trainer_; }
  [[nodiscard]] TrainingData& data() { return data_; }

  /// Takes the trainer's part in a round, and returns what came of it.
  reef::StepResult step() { return rounds_.step(); }
  /// Returns the access to what peers agree on, where it is not the trainer's own state.
  [[nodiscard]] reef::swarm::StateAccess state(std::int64_t piece) { return rounds_.state(piece); }

  /// Writes the weights where --export says. Returns a sentence about it, empty if nowhere.
  std::string export_weights() {
    const std::string& file = options_.export_file;
    if (file.empty()) return {};
    const auto write = [&] {
      reef::nn::write_gpt2<float>(file, trainer_.model().dag(), config_.vocabulary,
                                  [&](const std::string& name) { return trainer_.parameter(name); });
    };
    const std::string aside = write_in_place(file, write);
    if (const auto beside = config_beside(file); !exists(beside)) reef::nn::write_gpt2_config(beside, config_);
    return reef::concat("wrote ", file, aside);
  }

private:
  [[nodiscard]] int threads() const {
    return options_.threads > 0 ? options_.threads
                                : (std::max)(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  [[nodiscard]] typename TrainerType::Options trainer_options() const {
    typename TrainerType::Options result;
    rounds_.give(result);
    result.non_finite = reef::optim::NonFinite::skip;  // as the log decides
    result.seed = options_.seed;
    result.rule.options.weight_decay = options_.weight_decay;
    result.learning_rate.peak = options_.lr;
    result.learning_rate.warmup = options_.warmup_steps();
    result.learning_rate.steps = options_.scheduled_steps();
    result.learning_rate.floor = options_.lr / 10;
    result.clip_norm = options_.clip;
    result.device.threads = threads();
    result.device.memory_bytes = options_.device_memory;
    return result;
  }

  const JobOptions& options_;
  Tokenizer tokenizer_;
  TrainingData data_;
  reef::nn::GptConfig config_;
  RoundsOf<TrainerType> rounds_;
  TrainerType trainer_;
};

}  // namespace reef_examples
