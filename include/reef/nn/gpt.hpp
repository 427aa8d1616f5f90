#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/device/cores.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The shape of a GPT-2. The default is its smallest, with 124 439 808 parameters, and not padded.
///
/// Rows that pad wte are tokens that never occur: the loss counts their logits, as nanoGPT's does, and
/// training from scratch sinks them. Weights that were trained without padding are to be read without:
/// their logits may lie far below the zeros of a padded row.
struct GptConfig {
  /// Deep ones start within seconds: a Trainer of 10000 layers of one channel in some 4 to 14 s on 2 cores.
  static constexpr std::int64_t most_layers = 10'000;

  std::int64_t layers = 12;            ///< L
  std::int64_t heads = 12;             ///< H, divides C
  std::int64_t channels = 768;         ///< C
  std::int64_t vocabulary = 50257;     ///< V
  std::int64_t context = 1024;         ///< positions that have a vector
  std::int64_t batch = 1;              ///< B
  std::int64_t sequence = 0;           ///< T, at most the context; 0: the context
  std::int64_t padded_vocabulary = 0;  ///< rows of wte, for kernels that like round numbers; 0: V
  float dropout = 0;                   ///< of embedding, attention and residual branches
  bool bias = true;                    ///< of the four projections of a layer

  /// Throws OptionError, naming the first member that cannot be.
  void validate() const {
    const auto require_that = [](bool fits, const char* member, std::int64_t value,
                                 std::string_view range) {
      if (fits) return;
      throw OptionError("reef::nn::GptConfig: ", member, " is ", value, ".\n  fix: ", range, ".");
    };
    constexpr std::int64_t tokens = std::int64_t{1} << 31;  // they are int32
    require_that(layers >= 1 && layers <= most_layers, "layers", layers,
                 concat("1 to ", most_layers));
    require_that(heads >= 1, "heads", heads, "at least 1");
    require_that(channels >= 1 && channels <= 1 << 20 && channels % heads == 0, "channels",
                 channels, "a multiple of heads, at most 2^20");
    require_that(vocabulary >= 1 && vocabulary < tokens, "vocabulary", vocabulary, "1 to 2^31 - 1");
    require_that(context >= 1 && context <= 1 << 24, "context", context, "1 to 2^24");
    require_that(batch >= 1 && batch <= tokens / context, "batch", batch,
                 "at least 1, and at most 2^31 tokens");
    require_that(sequence >= 0 && sequence <= context, "sequence", sequence, "at most the context");
    require_that(
        padded_vocabulary == 0 || (padded_vocabulary >= vocabulary && padded_vocabulary < tokens),
        "padded_vocabulary", padded_vocabulary, "0, or from the vocabulary to 2^31 - 1");
    check_dropout_rate(dropout);
  }
};

/// A GPT-2: pre-norm transformer blocks over token and position vectors, with a tied head.
///
///     x = embedding(tokens);  L times: x += attention(ln_1(x)), x += mlp(ln_2(x))
///     logits = ln_f(x) wte^T;  loss = cross_entropy(logits, targets)
///
/// | inputs     | "tokens" (B, T) int32; "targets" (B, T) int32, -1 where a position does not count   |
/// | tensors    | "logits" (B, T, V), V as padded, before targets are read; "loss", a scalar           |
/// | parameters | GPT-2's names, shapes (projections are (in, out)) and initialisation: normal 0.02,   |
/// |            | projections into the residual stream 0.02 / sqrt(2L); head = transformer.wte.weight |
/// | cuts       | between any two nodes; between layers one tensor crosses                            |
/// | errors     | OptionError for a configuration that cannot be                                      |
///
/// Source: Radford et al., Language models are unsupervised multitask learners, 2019.
///
/// \code
/// const auto model = nn::gpt<device::Host, float>(
///     {.layers = 6, .heads = 6, .channels = 384, .vocabulary = 256, .context = 256, .batch = 8});
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> gpt(const GptConfig& config, int threads = device::available_cores()) {
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

#ifdef REEF_COMPILED
// With its kernels.
extern template graph::Graph<device::Host, float> gpt<device::Host, float>(const GptConfig& config, int threads);
#endif

}  // namespace nn
}  // namespace v0
}  // namespace reef
