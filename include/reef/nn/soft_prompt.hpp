#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/rewritten.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/layer_prompt.hpp>
#include <reef/nn/lora.hpp>
#include <reef/nn/prompt_cross_entropy.hpp>
#include <reef/nn/prompt_embedding.hpp>
#include <reef/nn/token_embedding.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The options of a soft prompt: the number of positions whose vectors are trained, and whether the prompt is deep,
/// that is, each layer adds trained vectors of its own to these positions (as Petals does).
struct SoftPrompt {
  std::int64_t tokens = 20;
  bool deep = false;

  /// Throws OptionError for a number of positions of a soft prompt below 1.
  void validate() const;
};

/// Returns true for the name of a deep prompt's parameter, which is used before a layer:
/// LAYER.prompt.prompt_embeddings.
bool is_of_layer_prompt(std::string_view parameter);

/// Returns the number of positions that a model's soft prompt takes; 0 without one.
std::int64_t prompt_tokens_of(const graph::Dag& model);

namespace detail {

/// Returns the beginning of a graph node's name that names its layer, such as "model.layers.3"; empty for a node of no
/// layer.
std::string_view layer_of(std::string_view node);

/// Returns the model with a LayerPrompt before each of its layers: before the first node of the layer, whose input all
/// nodes of the layer that read it then read from the LayerPrompt.
template <class Device, real T>
graph::Graph<Device, T> with_layer_prompts(const graph::Graph<Device, T>& model, std::int64_t tokens) {
  std::string_view last;
  graph::Graph<Device, T> result = graph::rewritten(model, [&](graph::Rewriting<Device, T>& to, int n) {
    const std::string_view layer = layer_of(model.dag().node_at(n).name);
    if (layer.empty() || layer == last) return std::vector<int>{};
    last = layer;
    // The layer's input, which later nodes read too.
    int& x = to.now[static_cast<std::size_t>(model.dag().node_at(n).inputs[0])];
    x = to.result.add(concat(layer, ".prompt"), LayerPrompt{tokens}, {x})[0];
    return std::vector<int>{};
  });
  if (last.empty()) {
    throw OptionError(
        "reef::nn::with_prompts: the model has no layers.\n  why: each is to have a prompt of its own.\n",
        "  fix: a model whose nodes are named by layer, such as layers.0.norm, or a prompt that is not deep.");
  }
  return result;
}

/// Returns the model with a soft prompt (PromptEmbedding<Table>) in place of each Table; adds the number of these nodes
/// to `count`.
template <class Table, class Device, real T>
graph::Graph<Device, T> with_prompt_at(const graph::Graph<Device, T>& model, std::int64_t tokens,
                                       int& count) {
  std::map<int, PromptEmbedding<Table>> others;
  for (int n = 0; n < model.dag().node_count(); ++n) {
    const Table* const table = model.template operator_as<Table>(n);
    if (table == nullptr) continue;
    if constexpr (PromptEmbedding<Table>::has_positions) {
      if (table->positions <= tokens) {
        throw OptionError("reef::nn::with_prompts: a prompt of ", tokens,
                          " positions leaves no room for text: '", model.dag().node_at(n).name,
                          "' has ", table->positions,
                          ".\n  fix: a shorter prompt, or a model of more positions.");
      }
    }
    others.emplace(n, PromptEmbedding<Table>{*table, tokens});
  }
  count += static_cast<int>(others.size());
  return others.empty() ? model : model.with_operators(others);
}

}  // namespace detail

/// Returns the model with a soft prompt: the vectors of the first P = `prompt.tokens` of the T positions are a
/// parameter (P, C), which is trained; all other parameters are frozen.
///
/// | positions | text stands behind the prompt: tokens and targets at positions below P are not read, and do not      |
/// |           | count. So T - P positions are left for text; data::behind_prompt moves texts of T - P tokens behind  |
/// |           | the prompt                                                                                           |
/// | rows      | a sequence of a nn::Session begins with P placeholders, any tokens of the vocabulary                 |
/// | names     | nodes, tensors and parameters keep their names; the prompt is NODE.prompt_embeddings, for the        |
/// |           | embedding's node                                                                                     |
/// | deep      | each layer also has a LayerPrompt, LAYER.prompt.prompt_embeddings, zeros at first                    |
/// | errors    | OptionError for P below 1 or without room for text, for a model without exactly one nn::Embedding or |
/// |           | nn::TokenEmbedding, whose loss is no nn::CrossEntropy, or that already has adapters or a prompt      |
///
/// Source: Lester et al., The power of scale for parameter-efficient prompt tuning, arXiv 2104.08691, section 2.
///
/// \code
/// #include <reef/nn/llama.hpp>
/// const nn::LlamaConfig config{
///     .layers = 2, .heads = 4, .kv_heads = 2, .channels = 64, .hidden = 128, .vocabulary = 256};
/// const auto base = nn::llama<device::Host, float>(config);
/// const auto model = nn::with_prompts(base, {.tokens = 20});
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> with_prompts(const graph::Graph<Device, T>& model,
                                     const SoftPrompt& prompt) {
  static_assert(
      requires { &Kernels<Device>::template prefix_forward<T>; },
      "reef::nn::with_prompts: this device has no kernels for soft prompts.\n  fix: device::Host.");
  prompt.validate();
  for (const graph::Parameter& parameter : model.dag().parameters) {
    if (!is_of_lora(parameter.name) && !is_of_prompt(parameter.name)) continue;
    throw OptionError("reef::nn::with_prompts: the model has '", parameter.name,
                      "'.\n  why: an adapter's file is of one kind.\n  fix: the model without "
                      "adapters and prompts.");
  }
  int count = 0;
  graph::Graph<Device, T> result = detail::with_prompt_at<TokenEmbedding>(
      detail::with_prompt_at<Embedding>(model, prompt.tokens, count), prompt.tokens, count);
  if (count != 1) {
    throw OptionError("reef::nn::with_prompts: the model has ", count,
                      " embeddings.\n  fix: a model with one nn::Embedding or nn::TokenEmbedding, "
                      "which reads its tokens.");
  }
  if (const int loss = model.dag().loss; loss >= 0) {
    const int node = model.dag().tensor_at(loss).producer;
    if (node < 0 || model.template operator_as<CrossEntropy>(node) == nullptr) {
      throw OptionError(
          "reef::nn::with_prompts: the loss '", model.dag().tensor_at(loss).name,
          "' is of no nn::CrossEntropy.\n  why: positions of the prompt are to have no target.\n"
          "  fix: a model of that loss, or without one.");
    }
    result = result.with_operators(
        std::map<int, PromptCrossEntropy>{{node, PromptCrossEntropy{prompt.tokens}}});
  }
  if (prompt.deep) result = detail::with_layer_prompts(result, prompt.tokens);
  for (const graph::Parameter& parameter : graph::Dag(result.dag()).parameters) {
    if (!is_of_prompt(parameter.name)) result.freeze(parameter.name);
  }
  return result;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/soft_prompt.ipp>
#endif
