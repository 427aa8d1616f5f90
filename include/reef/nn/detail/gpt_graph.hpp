#pragma once

// The graph that nn::gpt makes: with its operators and their kernels, which a program that has it from the library does
// not read.

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include <reef/core/element.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

template <class Device, real T>
graph::Graph<Device, T> gpt(const GptConfig& config, int threads) {
  config.validate();
  const std::int64_t C = config.channels;
  const std::int64_t V =
      config.padded_vocabulary == 0 ? config.vocabulary : config.padded_vocabulary;
  const std::int64_t sequence = config.sequence == 0 ? config.context : config.sequence;
  const double deviation = 0.02;
  const double into_residual = deviation / std::sqrt(2.0 * static_cast<double>(config.layers));

  graph::Graph<Device, T> g(threads);
  using Ref = typename graph::Graph<Device, T>::Ref;
  const Ref tokens = g.input("tokens", {{config.batch, sequence}, Element::int32});
  const Ref targets = g.input("targets", {{config.batch, sequence}, Element::int32});

  const auto apply = [&](std::string name, auto op, Ref x) {
    return g.add(std::move(name), std::move(op), {x})[0];
  };
  const auto linear = [&](std::string name, std::int64_t features, double scale, Ref x) {
    return apply(std::move(name), Linear{features, config.bias, Transpose::no, scale}, x);
  };
  const auto dropped = [&](const std::string& name, Ref x) {
    return config.dropout > 0 ? apply(name, Dropout{config.dropout}, x) : x;
  };
  const auto residual = [&](const std::string& name, Ref x, Ref branch) {
    return g.add(name, Add{}, {x, branch})[0];
  };

  Ref x = g.add("transformer.embedding", Embedding{V, config.context, C}, {tokens},
                {"transformer.wte.weight", "transformer.wpe.weight"})[0];
  x = dropped("transformer.drop", x);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string h = concat("transformer.h.", layer, ".");
    Ref y = apply(h + "ln_1", LayerNorm{}, x);
    y = linear(h + "attn.c_attn", 3 * C, deviation, y);
    y = apply(h + "attn", CausalAttention{config.heads, config.dropout}, y);
    y = linear(h + "attn.c_proj", C, into_residual, y);
    x = residual(h + "attn.residual", x, dropped(h + "attn.resid_dropout", y));
    y = apply(h + "ln_2", LayerNorm{}, x);
    y = linear(h + "mlp.c_fc", 4 * C, deviation, y);
    y = apply(h + "mlp.act", Gelu{}, y);
    y = linear(h + "mlp.c_proj", C, into_residual, y);
    x = residual(h + "mlp.residual", x, dropped(h + "mlp.dropout", y));
  }
  x = apply("transformer.ln_f", LayerNorm{}, x);
  const Ref logits =
      g.add("lm_head", Linear{V, false, Transpose::yes}, {x}, {"transformer.wte.weight"})[0];
  g.rename(logits, "logits");
  g.loss(g.add("loss", CrossEntropy{}, {logits, targets})[0]);
  return g;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
