#pragma once

#include <reef/core/element.hpp>
#include <reef/device/cores.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/detail/graphs_of_host.hpp>
#include <reef/nn/gpt_neox_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// A GPT-NeoX, such as Pythia or Dolly 2: transformer blocks in which attention and MLP read the same residual stream
/// in parallel, and rotary positions turn a part of each head's columns.
///
///     x = embed(tokens);  L times: x += dense(attention(q, k, v of norm(x))) + mlp(norm'(x))
///     not parallel:       L times: x += dense(attention(q, k, v of norm(x))), x += mlp(norm'(x))
///     logits = norm(x) head^T;  loss = cross_entropy(logits, targets)
///
/// | inputs     | "tokens" (B, T) int32; "targets" (B, T) int32, -1 for a position to be ignored |
/// | tensors    | "logits" (B, T, V), computed before targets are read; "loss", a scalar         |
/// | parameters | Hugging Face's names and shapes (projections are (out, in), query_key_value as |
/// |            | SplitHeads reads it): normal 0.02, projections into the residual stream        |
/// |            | 0.02 / sqrt(2L) for L layers; if tied, head = gpt_neox.embed_in.weight         |
/// | cuts       | between any two nodes; one tensor crosses between layers                       |
/// | errors     | OptionError for an invalid configuration                                       |
///
/// Source: Black et al., GPT-NeoX-20B, arXiv 2204.06745; huggingface/transformers, models/gpt_neox.
///
/// \code
/// const auto model = nn::gpt_neox<device::Host, float>(
///     {.layers = 6, .heads = 6, .channels = 384, .hidden = 1536, .vocabulary = 256, .context = 256, .batch = 8});
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> gpt_neox(const GptNeoxConfig& config, int threads = device::available_cores());

}  // namespace nn

#ifdef REEF_MODELS_IN_LIBRARY  // reef::compiled defines it
REEF_NN_GRAPHS_OF_HOST(extern, gpt_neox, GptNeoxConfig)
#endif

}  // namespace v0
}  // namespace reef

#if !defined(REEF_MODELS_IN_LIBRARY) || defined(__CUDACC__)  // the library has the graphs of the host alone
#include <reef/nn/detail/gpt_neox_graph.hpp>
#endif
