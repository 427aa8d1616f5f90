#pragma once

#include <cstdint>

#include <reef/core/bfloat16.hpp>
#include <reef/core/element.hpp>
#include <reef/device/cores.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>

// The library defines GPT-2's graphs of the host if it has a BLAS: reef::compiled does, reef::compiled_core does not.
#if defined(REEF_COMPILED) && (defined(REEF_HAS_DNNL) || defined(REEF_HAS_CBLAS))
#define REEF_NN_GPT_IN_LIBRARY
#endif

namespace reef {
inline namespace v0 {
namespace nn {

/// The shape of a GPT-2 language model. The default is the smallest GPT-2, with 124 439 808 parameters, without
/// padding.
///
/// Rows that pad wte stand for tokens that never occur: the loss includes their logits, as nanoGPT's does, and
/// training from scratch lowers them. Weights that were trained without padding must be read without padding:
/// their logits may be far below zero, the logit of a padded row.
struct GptConfig {
  /// The largest number of layers. Deep models start within seconds: a Trainer of 10000 layers of one channel in 4 to
  /// 14 s on 2 cores.
  static constexpr std::int64_t max_layers = 10'000;

  std::int64_t layers = 12;            ///< number of layers, L
  std::int64_t heads = 12;             ///< number of attention heads, H, which divides the number of channels C
  std::int64_t channels = 768;         ///< number of channels (width of the model), C
  std::int64_t vocabulary = 50257;     ///< the number of different tokens, V
  std::int64_t context = 1024;         ///< the number of positions, each with a vector in the table wpe
  std::int64_t batch = 1;              ///< number of sequences in a batch, B
  std::int64_t sequence = 0;           ///< length of the sequences in tokens, T, at most the context; 0: the context
  std::int64_t padded_vocabulary = 0;  ///< the rows of the token table wte, V rounded up for faster kernels; 0: V
  float dropout = 0;                   ///< the dropout rate of embedding, attention and residual branches
  bool bias = true;                    ///< true if the four projections of a layer have a bias

  /// Throws OptionError, naming the first invalid member of the configuration.
  void validate() const;

  friend bool operator==(const GptConfig&, const GptConfig&) = default;
};

/// A GPT-2: pre-norm transformer blocks over token and position vectors, with a tied head.
///
///     x = embedding(tokens);  L times: x += attention(ln_1(x)), x += mlp(ln_2(x))
///     logits = ln_f(x) wte^T;  loss = cross_entropy(logits, targets)
///
/// | inputs     | "tokens" (B, T) int32; "targets" (B, T) int32, -1 for a position to be ignored       |
/// | tensors    | "logits" (B, T, V), with V padded, written before targets are read; "loss", a scalar |
/// | parameters | GPT-2's names, shapes (projections are (in, out)) and initialisation: normal 0.02,   |
/// |            | projections into the residual stream 0.02 / sqrt(2L); head = transformer.wte.weight  |
/// | cuts       | between any two nodes; one tensor crosses between layers                             |
/// | errors     | OptionError for an invalid configuration                                             |
///
/// Source: Radford et al., Language models are unsupervised multitask learners, 2019.
///
/// \code
/// const auto model = nn::gpt<device::Host, float>(
///     {.layers = 6, .heads = 6, .channels = 384, .vocabulary = 256, .context = 256, .batch = 8});
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> gpt(const GptConfig& config, int threads = device::available_cores());

}  // namespace nn

#ifdef REEF_COMPILED
/// Declares the model graphs of the host and their kernels, with `extern`; without it, defines them, in one unit of the
/// library.
#define REEF_NN_GPT_OF_HOST(declared)                                                                                 \
  declared template graph::Graph<device::Host, float> nn::gpt<device::Host, float>(const nn::GptConfig& config,       \
                                                                                   int threads);                      \
  declared template graph::Graph<device::Host, double> nn::gpt<device::Host, double>(const nn::GptConfig& config,     \
                                                                                     int threads);                    \
  declared template graph::Graph<device::Host, Bfloat16> nn::gpt<device::Host, Bfloat16>(const nn::GptConfig& config, \
                                                                                         int threads);
#endif
#ifdef REEF_NN_GPT_IN_LIBRARY
REEF_NN_GPT_OF_HOST(extern)
#endif

}  // namespace v0
}  // namespace reef

#ifndef REEF_NN_GPT_IN_LIBRARY
#include <reef/nn/detail/gpt_graph.hpp>
#endif
#ifndef REEF_COMPILED
#include <reef/nn/gpt.ipp>
#endif
