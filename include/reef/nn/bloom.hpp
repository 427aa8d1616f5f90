#pragma once

#include <reef/core/element.hpp>
#include <reef/device/cores.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/bloom_config.hpp>
#include <reef/nn/detail/graphs_of_host.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// A BLOOM: pre-norm transformer blocks without position vectors, whose attention decreases with the distance (ALiBi).
///
///     x = norm(embed(tokens));  L times: x += dense(attention(q, k, v of norm(x))), x += mlp(norm(x)), mlp 4C wide
///     logits = norm(x) head^T;  loss = cross_entropy(logits, targets)
///
/// | inputs     | "tokens" (B, T) int32; "targets" (B, T) int32, -1 for a position to be ignored   |
/// | tensors    | "logits" (B, T, V), computed before targets are read; "loss", a scalar           |
/// | parameters | Hugging Face's names and shapes (projections are (out, in), query_key_value as   |
/// |            | SplitHeads reads it): normal 0.02, projections into the residual stream          |
/// |            | 0.02 / sqrt(2L) for L layers; if tied, head = transformer.word_embeddings.weight |
/// | cuts       | between any two nodes; one tensor crosses between layers                         |
/// | errors     | OptionError for an invalid configuration                                         |
///
/// Source: BigScience, BLOOM, arXiv 2211.05100; huggingface/transformers, models/bloom.
///
/// \code
/// const auto model = nn::bloom<device::Host, float>(
///     {.layers = 6, .heads = 6, .channels = 384, .vocabulary = 256, .batch = 8, .sequence = 256});
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> bloom(const BloomConfig& config, int threads = device::available_cores());

}  // namespace nn

#ifdef REEF_MODELS_IN_LIBRARY  // reef::compiled defines it
REEF_NN_GRAPHS_OF_HOST(extern, bloom, BloomConfig)
#endif

}  // namespace v0
}  // namespace reef

#if !defined(REEF_MODELS_IN_LIBRARY) || defined(__CUDACC__)  // the library has the graphs of the host alone
#include <reef/nn/detail/bloom_graph.hpp>
#endif
