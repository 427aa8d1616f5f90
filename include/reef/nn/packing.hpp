#pragma once

#include <algorithm>
#include <concepts>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/rewritten.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/lora_linear.hpp>
#include <reef/nn/packed.hpp>
#include <reef/nn/rms_norm.hpp>
#include <reef/nn/rotary.hpp>
#include <reef/nn/token_embedding.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

namespace detail {

/// Returns the outputs of a node that is added with Packed<Op> in place of Op (for several samples in a row); empty if
/// the operator of node n is not Op.
template <class Op, class Device, real T>
std::vector<int> packed_node(graph::Rewriting<Device, T>& to, int n, int tokens) {
  const Op* const op = to.model.template operator_as<Op>(n);
  if (op == nullptr) return {};
  std::vector<int> inputs = to.inputs_of(n);
  if (!Packed<Op>::reads_tokens) inputs.push_back(to.now[static_cast<std::size_t>(tokens)]);
  return to.result.add(to.model.dag().node_at(n).name, Packed<Op>{*op}, std::move(inputs), to.parameters_of(n));
}

/// Returns true if the operator of node n computes each position of a sequence alone, or is the loss.
template <class Device, real T>
bool keeps_samples_apart(const graph::Graph<Device, T>& model, int n) {
  return model.by_rows(n) || model.template operator_as<Linear>(n) != nullptr ||
         model.template operator_as<LoraLinear>(n) != nullptr || model.template operator_as<LayerNorm>(n) != nullptr ||
         model.template operator_as<RmsNorm>(n) != nullptr || model.template operator_as<CrossEntropy>(n) != nullptr;
}

}  // namespace detail

/// Returns the model for rows in which several samples lie one after another, as data::PackedPairSampler writes them:
/// each operator that mixes or counts positions is wrapped in nn::Packed, and so applied to every sample of a row
/// alone.
///
/// | samples | begin at position 0, and at each negative token: token v is then written as ~v                         |
/// | names   | nodes, tensors and parameters keep their names; rows without marks give the bits of the original model |
/// | law     | loss and gradients are those of the samples in rows of their own, except for the rounding of their     |
/// |         | sums                                                                                                   |
/// | rows    | nn::Session runs the original model, which has the same parameters                                     |
/// | errors  | OptionError for a model in which no nn::Embedding or nn::TokenEmbedding reads tokens, for dropout in   |
/// |         | attention, and for any other operator that may mix positions, such as a soft prompt's                  |
///
/// Source: Krell et al., Efficient sequence packing without cross-contamination, arXiv 2107.02027, section 3.2.
///
/// \code
/// #include <reef/nn/gpt.hpp>
/// const auto base = nn::gpt<device::Host, float>(
///     {.layers = 2, .heads = 4, .channels = 64, .vocabulary = 256, .context = 128});
/// const auto model = nn::with_packing(base);
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> with_packing(const graph::Graph<Device, T>& model) {
  const graph::Dag& dag = model.dag();
  std::vector<int> tables;
  for (int n = 0; n < dag.node_count(); ++n) {
    if (model.template operator_as<Embedding>(n) != nullptr || model.template operator_as<TokenEmbedding>(n) != nullptr)
      tables.push_back(n);
  }
  if (tables.size() != 1) {
    throw OptionError(
        "reef::nn::with_packing: the model has ", tables.size(),
        " embeddings.\n  why: their tokens say where samples begin.\n  fix: a model with one nn::Embedding or "
        "nn::TokenEmbedding, and no soft prompt.");
  }
  const int tokens = dag.node_at(tables[0]).inputs[0];
  return graph::rewritten(model, [&](graph::Rewriting<Device, T>& to, int n) {
    std::vector<int> outputs = detail::packed_node<Embedding>(to, n, tokens);
    if (outputs.empty()) outputs = detail::packed_node<TokenEmbedding>(to, n, tokens);
    if (outputs.empty()) outputs = detail::packed_node<CausalAttention>(to, n, tokens);
    if (outputs.empty()) outputs = detail::packed_node<GroupedAttention>(to, n, tokens);
    if (outputs.empty()) outputs = detail::packed_node<Rotary>(to, n, tokens);
    if (outputs.empty() && !detail::keeps_samples_apart(model, n)) {
      const graph::Node& node = dag.node_at(n);
      throw OptionError(
          "reef::nn::with_packing: the node '", node.name, "' of kind ", node.kind,
          " may mix positions of different samples.\n  fix: a model of nn's operators; of one's own, such as "
          "compute each row alone: static constexpr bool by_rows = true.");
    }
    return outputs;
  });
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
