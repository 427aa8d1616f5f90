#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <reef/data/sampler.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef::test {

/// A GPT with every kind of operator, small and of odd shape: no size divides another.
inline nn::GptConfig small_config() {
  nn::GptConfig config;
  config.layers = 2;
  config.heads = 3;
  config.channels = 21;
  config.vocabulary = 37;
  config.context = 11;
  config.batch = 2;
  config.dropout = 0.1F;
  return config;
}

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

/// Weight 1 a micro-batch; `weigh_tokens` counts tokens instead.
inline run::Source small_source(bool weigh_tokens = false) {
  return [sampler = data::Sampler(small_text(), small_config().context, 3), weigh_tokens](
             std::uint64_t first, std::span<const AnyView> inputs) {
    const std::int64_t batch = inputs[0].shape()[0];
    sampler.fill(first, batch, inputs[0].as<std::int32_t>().data(),
                 inputs[1].as<std::int32_t>().data());
    return weigh_tokens ? static_cast<double>(inputs[0].shape().size()) : 1.0;
  };
}

/// What a run leaves behind: every bit counts.
template <class T>
struct Outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<std::vector<T>> weights;

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
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    outcome.weights.push_back(trainer.parameter(parameter.name));
  }
  return outcome;
}

template <class TrainerType>
typename TrainerType::Options small_options() {
  typename TrainerType::Options options;
  options.seed = 11;
  options.device.threads = 1;
  options.learning_rate = {.peak = 0.01, .warmup = 2, .steps = 20};
  options.clip_norm = 0.5;
  options.bucket_bytes = 8192;  // several buckets, some smaller than a norm block per rank
  return options;
}

/// Trains on all ranks of `ranks`.
template <class TrainerType>
Outcome<typename TrainerType::T> train(const typename TrainerType::Options& options, int steps = 4,
                                       MPI_Comm ranks = MPI_COMM_WORLD,
                                       const nn::GptConfig& config = small_config()) {
  using Device = typename TrainerType::Device;
  using T = typename TrainerType::T;
  const int threads = options.device.threads;
  const comm::Communicator communicator(ranks);
  TrainerType trainer(nn::gpt<Device, T>(config, threads), small_source(), options, small_source(),
                      communicator);
  return outcome_of(trainer, steps);
}

}  // namespace reef::test
