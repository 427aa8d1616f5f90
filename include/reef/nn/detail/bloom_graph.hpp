#pragma once

// The graph that nn::bloom makes: with its operators and their kernels, which a program that has it from the library
// does not read.

#include <cstdint>
#include <string>
#include <utility>

#include <reef/core/text.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/bloom.hpp>
#include <reef/nn/bloom_config.hpp>
#include <reef/nn/detail/decoder_graph.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/layer_norm.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

template <class Device, real T>
graph::Graph<Device, T> bloom(const BloomConfig& config, int threads) {
  config.validate();
  const std::int64_t C = config.channels;
  const GroupedAttention attention{.heads = config.heads, .kv_heads = config.heads, .alibi = true};

  detail::DecoderGraph<Device, T> g(config, threads);
  using Ref = typename graph::Graph<Device, T>::Ref;
  const auto norm = [&](std::string name, Ref x) {
    return g.apply(std::move(name), LayerNorm{config.epsilon}, {x});
  };
  const auto as_it_is = [](const std::string& /*name*/, Ref x) { return x; };

  Ref x = g.embedded("transformer.word_embeddings", config.vocabulary, C);
  x = norm("transformer.word_embeddings_layernorm", x);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string h = concat("transformer.h.", layer, ".");
    Ref y = norm(h + "input_layernorm", x);
    y = g.fused_attention(h + "self_attention", y, C, attention, true, as_it_is);
    x = g.apply(h + "self_attention.residual", Add{}, {x, y});
    y = norm(h + "post_attention_layernorm", x);
    y = g.mlp(h + "mlp", y, C, 4 * C, Gelu{});
    x = g.apply(h + "mlp.residual", Add{}, {x, y});
  }
  return g.finished(norm("transformer.ln_f", x), config.vocabulary, "lm_head",
                    config.tied ? "transformer.word_embeddings.weight" : "lm_head.weight");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
