#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/data/sampler.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/trainer/trainer.hpp>

#include "gpt_config.hpp"
#include "ranks.hpp"
#include "trainers.hpp"

// A small GPT, what it reads, and what a training of it leaves behind.

namespace reef::test {

/// A text with some order in it.
inline const std::vector<std::uint8_t>& small_text() {
  static const std::vector<std::uint8_t> text = [] {
    std::vector<std::uint8_t> tokens;
    for (std::uint64_t i = 0; i < 5000; ++i) {
      const std::uint32_t noise = random_bits({5, 0, 0, 0}, i) % 4;
      tokens.push_back(static_cast<std::uint8_t>((3 * i + i / 7 + noise) % 37));
    }
    return tokens;
  }();
  return text;
}

/// Every micro-batch has the weight 1.
inline run::Source small_source() {
  return [sampler = data::Sampler(small_text(), small_config().context, 3)](
             std::uint64_t first, std::span<const AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  };
}

/// What a run leaves behind: every bit counts.
template <class T>
struct Outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<std::vector<sum_t<T>>> weights;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

template <class TrainerType>
Outcome<typename TrainerType::T> outcome_of(TrainerType& trainer, int steps) {
  Outcome<typename TrainerType::T> outcome;
  for (int i = 0; i < steps; ++i) {
    const StepResult result = trainer.step();
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.gradient_norm);
  }
  trainer.gather_committed_weights();
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    outcome.weights.push_back(trainer.plan().topology.stages > 1 ? trainer.gather_parameter(parameter.name)
                                                                 : trainer.parameter(parameter.name));
  }
  return outcome;
}

/// One micro-batch on every rank, one thread, and a norm that most gradients exceed.
template <class TrainerType>
typename TrainerType::Options small_options() {
  typename TrainerType::Options options;
  options.seed = 11;
  if constexpr (requires { options.device.threads; }) options.device.threads = 1;
  options.learning_rate = {.peak = 0.01, .warmup = 2, .steps = 20};
  options.clip_norm = 0.5;
  options.bucket_bytes = 8192;  // several buckets, some smaller than a norm block per rank
  if constexpr (optim::rule_count<typename TrainerType::Rule> > 1) {
    const int last = optim::rule_count<typename TrainerType::Rule> - 1;
    options.groups = {{.pattern = "*.bias", .rule = 1}, {.pattern = "*.h.*.weight", .rule = last}, {.pattern = "*ln_f*", .rule = 1}};
  }
  return options;
}

/// Every rank has its own number of micro-batches.
template <class TrainerType>
typename TrainerType::Options uneven_options() {
  auto options = small_options<TrainerType>();
  options.micro_batches = {uneven_count(world_rank())};
  return options;
}

/// One process in the place of as many ranks as there are counts: a rank runs it for itself alone.
template <class TrainerType>
typename TrainerType::Options alone_options(const std::vector<int>& counts) {
  auto options = small_options<TrainerType>();
  options.virtual_ranks = static_cast<int>(counts.size());
  options.micro_batches = counts;
  return options;
}

/// The small GPT on the ranks of `communicator`.
template <class TrainerType>
TrainerType small_trainer(const typename TrainerType::Options& options,
                          const comm::Communicator& communicator,
                          const nn::GptConfig& config = small_config()) {
  using Device = typename TrainerType::Device;
  using T = typename TrainerType::T;
  int threads = 1;
  if constexpr (requires { options.device.threads; }) threads = options.device.threads;
  return TrainerType(nn::gpt<Device, T>(config, threads), small_source(), options, small_source(),
                     communicator);
}

/// Trains on all ranks of `ranks`.
template <class TrainerType>
Outcome<typename TrainerType::T> train(const typename TrainerType::Options& options, int steps = 4,
                                       MPI_Comm ranks = MPI_COMM_WORLD,
                                       const nn::GptConfig& config = small_config()) {
  const comm::Communicator communicator(ranks);
  TrainerType trainer = small_trainer<TrainerType>(options, communicator, config);
  return outcome_of(trainer, steps);
}

}  // namespace reef::test
