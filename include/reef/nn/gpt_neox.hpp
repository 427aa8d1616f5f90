#pragma once

#include <reef/core/element.hpp>
#include <reef/device/cores.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/detail/graphs_of_host.hpp>
#include <reef/nn/gpt_neox_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// A GPT-NeoX, as Pythia and Dolly 2 are: transformer blocks whose attention and MLP read the same residual stream side by
/// side, with heads that rotary positions turn in part.
///
///     x = embed(tokens);  L times: x += dense(attention(q, k, v of norm(x))) + mlp(norm'(x))
///     not parallel:       L times: x += dense(attention(q, k, v of norm(x))), x += mlp(norm'(x))
///     logits = norm(x) head^T;  loss = cross_entropy(logits, targets)
///
/// | inputs     | "tokens" (B, T) int32; "targets" (B, T) int32, -1 where a position does not count |
/// | tensors    | "logits" (B, T, V), before targets are read; "loss", a scalar                     |
/// | parameters | Hugging Face's names and shapes (projections are (out, in), query_key_value as    |
/// |            | SplitHeads reads it): normal 0.02, projections into the residual stream           |
/// |            | 0.02 / sqrt(2L); head = gpt_neox.embed_in.weight if tied                          |
/// | cuts       | between any two nodes; between layers one tensor crosses                          |
/// | errors     | OptionError for a configuration that cannot be                                    |
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
