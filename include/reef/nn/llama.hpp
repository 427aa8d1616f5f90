#pragma once

#include <reef/core/element.hpp>
#include <reef/device/cores.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/detail/graphs_of_host.hpp>
#include <reef/nn/llama_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// A Llama: pre-norm transformer blocks with rotary positions and gated MLPs; with other fields a Mistral, Qwen 2 or
/// Qwen 3.
///
///     x = embed(tokens);  L times: x += o(attention(q, k, v of norm(x))), x += down(silu(gate(y)) up(y)), y = norm(x)
///     logits = norm(x) head^T;  loss = cross_entropy(logits, targets)
///
/// | inputs     | "tokens" (B, T) int32; "targets" (B, T) int32, -1 for a position to be ignored        |
/// | tensors    | "logits" (B, T, V), computed before targets are read; "loss", a scalar                |
/// | parameters | Hugging Face's names and shapes (projections are (out, in)): normal 0.02, projections |
/// |            | into the residual stream 0.02 / sqrt(2L) for L layers; if tied, head =                |
/// |            | model.embed_tokens.weight                                                             |
/// | cuts       | between any two nodes; one tensor crosses between layers                              |
/// | errors     | OptionError for an invalid configuration                                              |
///
/// Source: Touvron et al., LLaMA, arXiv 2302.13971; huggingface/transformers, models/{llama,mistral,qwen2,qwen3}.
///
/// \code
/// const auto model = nn::llama<device::Host, float>(
///     {.layers = 6, .heads = 6, .kv_heads = 2, .channels = 384, .hidden = 1024, .vocabulary = 256, .context = 256,
///      .batch = 8});
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> llama(const LlamaConfig& config, int threads = device::available_cores());

}  // namespace nn

#ifdef REEF_MODELS_IN_LIBRARY  // reef::compiled defines it
REEF_NN_GRAPHS_OF_HOST(extern, llama, LlamaConfig)
#endif

}  // namespace v0
}  // namespace reef

#if !defined(REEF_MODELS_IN_LIBRARY) || defined(__CUDACC__)  // the library has the graphs of the host alone
#include <reef/nn/detail/llama_graph.hpp>
#endif
