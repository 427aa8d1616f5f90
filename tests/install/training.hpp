#pragma once

#include <cstdint>
#include <span>

#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

/// The loss of a small model's third step.
inline double train_a_little() {
  using namespace reef;
  const auto source = [](std::uint64_t first, std::span<const AnyView> inputs) {
    for (const AnyView& input : inputs) {
      auto token = static_cast<std::int32_t>(first % 5);
      for (std::int32_t& number : input.as<std::int32_t>().span()) number = token++ % 16;
    }
    return 1.0;
  };
  const nn::GptConfig config{
      .layers = 1, .heads = 1, .channels = 8, .vocabulary = 16, .context = 8, .batch = 2};
  using Training = Trainer<optim::Zero1<optim::AdamW>>;
  Training::Options options;
  options.device.threads = 1;
  Training trainer(nn::gpt<device::Host, float>(config, 1), source, options);
  trainer.step();
  trainer.step();
  return trainer.step().loss;
}
