#pragma once

// The graph that nn::gpt_neox makes: with its operators and their kernels, which a program that has it from the library
// does not read.

#include <cstdint>
#include <string>
#include <utility>

#include <reef/core/text.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/detail/decoder_graph.hpp>
#include <reef/nn/exact_gelu.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/gpt_neox_config.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/rotary.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

template <class Device, real T>
graph::Graph<Device, T> gpt_neox(const GptNeoxConfig& config, int threads) {
  config.validate();
  const std::int64_t C = config.channels;
  const GroupedAttention attention{.heads = config.heads, .kv_heads = config.heads};

  detail::DecoderGraph<Device, T> g(config, threads);
  using Ref = typename graph::Graph<Device, T>::Ref;
  const auto norm = [&](std::string name, Ref x) {
    return g.apply(std::move(name), LayerNorm{config.epsilon}, {x});
  };
  const auto turned = [&](const std::string& name, Ref x) {
    const RotaryFrequencies& f = config.rotary;
    return g.apply(name + "_rotary",
                   Rotary{C / config.heads, f.theta, f.factor, f.original, f.low, f.high, config.turned}, {x});
  };
  const auto mlp = [&](const std::string& name, Ref y) {
    return config.exact_gelu ? g.mlp(name, y, C, config.hidden, ExactGelu{}) : g.mlp(name, y, C, config.hidden, Gelu{});
  };

  Ref x = g.embedded("gpt_neox.embed_in", config.vocabulary, C);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string h = concat("gpt_neox.layers.", layer, ".");
    const Ref before = x;
    Ref y = norm(h + "input_layernorm", x);
    y = g.fused_attention(h + "attention", y, C, attention, config.attention_bias, turned);
    x = g.apply(h + "attention.residual", Add{}, {x, y});
    y = norm(h + "post_attention_layernorm", config.parallel ? before : x);
    x = g.apply(h + "mlp.residual", Add{}, {x, mlp(h + "mlp", y)});
  }
  return g.finished(norm("gpt_neox.final_layer_norm", x), config.vocabulary, "embed_out",
                    config.tied ? "gpt_neox.embed_in.weight" : "embed_out.weight");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
