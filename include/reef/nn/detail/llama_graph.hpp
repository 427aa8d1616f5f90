#pragma once

// The graph that nn::llama makes: with its operators and their kernels, which a program that has it from the library
// does not read.

#include <cstdint>
#include <string>
#include <utility>

#include <reef/core/text.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/detail/decoder_graph.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/llama_config.hpp>
#include <reef/nn/rms_norm.hpp>
#include <reef/nn/rotary.hpp>
#include <reef/nn/swiglu.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

template <class Device, real T>
graph::Graph<Device, T> llama(const LlamaConfig& config, int threads) {
  config.validate();
  const std::int64_t C = config.channels;
  const std::int64_t H = config.heads;
  const std::int64_t K = config.heads_of_keys();
  const std::int64_t D = config.size_of_head();

  detail::DecoderGraph<Device, T> g(config, threads);
  using Ref = typename graph::Graph<Device, T>::Ref;
  const auto norm = [&](std::string name, Ref x) {
    return g.apply(std::move(name), RmsNorm{config.epsilon}, {x});
  };
  const auto turned = [&](const std::string& name, Ref x) {
    if (config.norm_heads) x = g.apply(name + "_norm", RmsNorm{config.epsilon, D}, {x});
    const RotaryFrequencies& f = config.rotary;
    return g.apply(name + "_rotary", Rotary{D, f.theta, f.factor, f.original, f.low, f.high}, {x});
  };

  Ref x = g.embedded("model.embed_tokens", config.vocabulary, C);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string h = concat("model.layers.", layer, ".");
    const std::string attention = h + "self_attn.";
    Ref y = norm(h + "input_layernorm", x);
    const Ref q = turned(attention + "q", g.linear(attention + "q_proj", H * D, config.query_bias, y));
    const Ref k = turned(attention + "k", g.linear(attention + "k_proj", K * D, config.query_bias, y));
    const Ref v = g.linear(attention + "v_proj", K * D, config.query_bias, y);
    const std::int64_t window = layer < config.window_from ? 0 : config.window;
    y = g.apply(h + "self_attn", GroupedAttention{H, K, window}, {q, k, v});
    y = g.linear_into_residual(attention + "o_proj", C, config.output_bias, y);
    x = g.apply(attention + "residual", Add{}, {x, y});
    y = norm(h + "post_attention_layernorm", x);
    const Ref gate = g.linear(h + "mlp.gate_proj", config.hidden, config.mlp_bias, y);
    const Ref up = g.linear(h + "mlp.up_proj", config.hidden, config.mlp_bias, y);
    y = g.apply(h + "mlp.act", SwiGlu{}, {gate, up});
    y = g.linear_into_residual(h + "mlp.down_proj", C, config.mlp_bias, y);
    x = g.apply(h + "mlp.residual", Add{}, {x, y});
  }
  return g.finished(norm("model.norm", x), config.vocabulary, "lm_head",
                    config.tied ? "model.embed_tokens.weight" : "lm_head.weight");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
