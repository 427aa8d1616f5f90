#pragma once

#include <reef/torch/module.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include <reef/nn.hpp>

#include "../support/small_gpt.hpp"
#include "gpt_block.hpp"

// A small GPT of native operators and of libtorch modules.

namespace reef::test {

/// Its layers are torch, native with a tail of torch, and torch. The embedding is the head too. `changed` gives what comes
/// before the last layers, of what is there.
template <class Device, real T = float>
struct MixedModel {
  using Graph = graph::Graph<Device, T>;

  std::uint64_t seed = 3;
  float dropout = 0.1F;
  torch::ModuleOptions options{};

  [[nodiscard]] Graph operator()() const {
    return operator()([](Graph& /*graph*/, int x) { return x; });
  }

  template <class Change>
  [[nodiscard]] Graph operator()(const Change& changed) const {
    const nn::GptConfig config = small_config();
    const std::int64_t C = config.channels;
    ::torch::manual_seed(seed);
    Graph g(1);
    const int tokens = g.input("tokens", {{config.batch, config.context}, Element::int32});
    const int targets = g.input("targets", {{config.batch, config.context}, Element::int32});
    const auto apply = [&](const char* name, auto op, std::vector<int> in) { return g.add(name, std::move(op), std::move(in))[0]; };
    int x = g.add("embedding", nn::Embedding{config.vocabulary, config.context, C}, {tokens}, {"wte", "wpe"})[0];
    x = apply("block.0", torch::Module(torch_modules::GptBlock(C, config.heads, dropout), options), {x});
    int y = apply("ln", nn::LayerNorm{}, {x});
    y = apply("fc", nn::Linear{.features = C}, {y});
    y = apply("drop", nn::Dropout{dropout}, {y});
    y = apply("act", torch::Module(::torch::nn::GELU(), options), {y});
    x = changed(g, apply("residual", nn::Add{}, {x, y}));
    x = apply("block.1", torch::Module(torch_modules::GptBlock(C, config.heads, 2 * dropout), options), {x});
    x = apply("ln_f", torch::Module(::torch::nn::LayerNorm(::torch::nn::LayerNormOptions({C})), options), {x});
    const int logits = g.add("head", nn::Linear{config.vocabulary, false, nn::Transpose::yes}, {x}, {"wte"})[0];
    g.loss(g.add("loss", nn::CrossEntropy{}, {logits, targets})[0]);
    return g;
  }
};

}  // namespace reef::test
