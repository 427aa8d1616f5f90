#pragma once

// The graph that nn::llama makes: with its operators and their kernels, which a program that has it from the library does not read.

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/graph/graph.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/llama_config.hpp>
#include <reef/nn/rms_norm.hpp>
#include <reef/nn/rotary.hpp>
#include <reef/nn/swiglu.hpp>
#include <reef/nn/token_embedding.hpp>

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
  const double deviation = 0.02;
  const double into_residual = deviation / std::sqrt(2.0 * static_cast<double>(config.layers));

  graph::Graph<Device, T> g(threads);
  using Ref = typename graph::Graph<Device, T>::Ref;
  const graph::TensorSpec numbers{{config.batch, config.length()}, Element::int32};
  const Ref tokens = g.input("tokens", numbers);
  const Ref targets = g.input("targets", numbers);

  const auto apply = [&](std::string name, auto op, std::vector<Ref> inputs) {
    return g.add(std::move(name), std::move(op), std::move(inputs))[0];
  };
  const auto norm = [&](std::string name, Ref x) {
    return apply(std::move(name), RmsNorm{config.epsilon}, {x});
  };
  const auto linear = [&](std::string name, std::int64_t features, bool bias, double scale, Ref x) {
    return apply(std::move(name), Linear{features, bias, Transpose::yes, scale}, {x});
  };
  const auto turned = [&](const std::string& name, Ref x) {
    if (config.norm_heads) x = apply(name + "_norm", RmsNorm{config.epsilon, D}, {x});
    const RotaryFrequencies& f = config.rotary;
    return apply(name + "_rotary", Rotary{D, f.theta, f.factor, f.original, f.low, f.high}, {x});
  };

  Ref x = apply("model.embed_tokens", TokenEmbedding{config.vocabulary, C}, {tokens});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string h = concat("model.layers.", layer, ".");
    const std::string attention = h + "self_attn.";
    Ref y = norm(h + "input_layernorm", x);
    const Ref q = turned(attention + "q",
                         linear(attention + "q_proj", H * D, config.query_bias, deviation, y));
    const Ref k = turned(attention + "k",
                         linear(attention + "k_proj", K * D, config.query_bias, deviation, y));
    const Ref v = linear(attention + "v_proj", K * D, config.query_bias, deviation, y);
    const std::int64_t window = layer < config.window_from ? 0 : config.window;
    y = apply(h + "self_attn", GroupedAttention{H, K, window}, {q, k, v});
    y = linear(attention + "o_proj", C, config.output_bias, into_residual, y);
    x = apply(attention + "residual", Add{}, {x, y});
    y = norm(h + "post_attention_layernorm", x);
    const Ref gate = linear(h + "mlp.gate_proj", config.hidden, config.mlp_bias, deviation, y);
    const Ref up = linear(h + "mlp.up_proj", config.hidden, config.mlp_bias, deviation, y);
    y = apply(h + "mlp.act", SwiGlu{}, {gate, up});
    y = linear(h + "mlp.down_proj", C, config.mlp_bias, into_residual, y);
    x = apply(h + "mlp.residual", Add{}, {x, y});
  }
  x = norm("model.norm", x);
  const Ref logits = g.add("lm_head", Linear{config.vocabulary, false, Transpose::yes, deviation},
                           {x}, {config.tied ? "model.embed_tokens.weight" : "lm_head.weight"})[0];
  g.rename(logits, "logits");
  g.loss(g.add("loss", CrossEntropy{}, {logits, targets})[0]);
  return g;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
