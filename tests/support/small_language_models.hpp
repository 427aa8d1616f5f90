#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/bloom.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/llama.hpp>

namespace reef::test {

/// What tests of generation choose of a small model; its widths are odd, and no two families have the same.
struct SmallLanguageModel {
  std::int64_t layers = 2;
  std::int64_t vocabulary = 37;
  std::int64_t context = 160;

  using Graph = graph::Graph<device::Host, float>;

  [[nodiscard]] Graph gpt() const {
    nn::GptConfig config;
    config.layers = layers;
    config.heads = 3;
    config.channels = 21;
    config.vocabulary = vocabulary;
    config.context = context;
    config.sequence = 1;
    return nn::gpt<device::Host, float>(config, 1);
  }
  /// A window of 70 positions from the second layer on, and heads that share keys.
  [[nodiscard]] Graph llama() const {
    nn::LlamaConfig config;
    config.layers = layers;
    config.heads = 4;
    config.kv_heads = 2;
    config.channels = 24;
    config.hidden = 40;
    config.vocabulary = vocabulary;
    config.context = context;
    config.sequence = 1;
    config.window = 70;
    config.window_from = 1;
    return nn::llama<device::Host, float>(config, 1);
  }
  [[nodiscard]] Graph bloom() const {
    return nn::bloom<device::Host, float>(
        {.layers = layers, .heads = 3, .channels = 24, .vocabulary = vocabulary, .context = context, .sequence = 1}, 1);
  }
  /// Positions turn 4 of the 10 columns of a head.
  [[nodiscard]] Graph neox() const {
    nn::GptNeoxConfig config{
        .layers = layers, .heads = 3, .channels = 30, .hidden = 40, .vocabulary = vocabulary, .context = context};
    config.sequence = 1;
    config.turned = 4;
    return nn::gpt_neox<device::Host, float>(config, 1);
  }
};

/// Gives each parameter of a model, or of a part of it, numbers that the parameter's place in the model draws.
template <class Part>
void set_drawn_weights(Part& part, const graph::Dag& dag) {
  std::uint64_t number = 0;
  for (const graph::Parameter& parameter : dag.parameters) {
    std::vector<float> values(static_cast<std::size_t>(parameter.spec.shape.size()));
    const float divisor = parameter.spec.shape.rank() > 1 ? 2.0F : 1.0F;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = (uniform({number, 3, 0, 0}, i) - 0.5F) / divisor;
    part.set_parameter(parameter.name, values);
    ++number;
  }
}

}  // namespace reef::test
