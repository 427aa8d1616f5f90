#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/rewritten.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/linear.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The options of a class head, which classifies texts: the number of classes.
struct ClassHead {
  static constexpr std::int64_t most = 1'000'000;  ///< the largest number of classes

  std::int64_t classes = 2;

  /// Throws OptionError for a number of classes below 1.
  void validate() const;
};

/// Returns true for the name of a class head's matrix: score.weight, as in Hugging Face's models for sequence
/// classification.
bool is_of_class_head(std::string_view parameter);

/// Returns the model with a class head in place of its language head: the logits at a text's last token are its
/// classes'.
///
///     logits[b, t] = x[b, t] score^T
///     loss = mean of -log softmax(logits[b, t])[targets[b, t]] over targets that are not -1
///
/// | shape      | "logits": (B, T, classes); score.weight: (classes, C), normal of deviation 0.02, trained; no bias  |
/// | targets    | a text's label, 0 to classes - 1, at its last token, and -1 elsewhere: data::PairSampler writes    |
/// |            | these if the completion of a pair is the label; so one row of nn::with_packing can have several    |
/// |            | texts with labels                                                                                  |
/// | names      | nodes, tensors and parameters keep their names, except for the language head's; the head's node is |
/// |            | "score"                                                                                            |
/// | order      | after with_lora, which freezes the parameters that it finds; before with_packing                   |
/// | cost       | 2 B T C classes operations for the head, since it is computed at all positions                     |
/// | errors     | OptionError for less than 1 class, and for a model whose loss is no nn::CrossEntropy of a          |
/// |            | nn::Linear                                                                                         |
///
/// Source: huggingface/transformers, LlamaForSequenceClassification and similar classes: `score`, read at the last
/// token.
///
/// \code
/// #include <reef/nn/llama.hpp>
/// const nn::LlamaConfig config{
///     .layers = 2, .heads = 4, .kv_heads = 2, .channels = 64, .hidden = 128, .vocabulary = 256};
/// const auto base = nn::llama<device::Host, float>(config);
/// const auto model = nn::with_class_head(base, {.classes = 3});
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> with_class_head(const graph::Graph<Device, T>& model, const ClassHead& head) {
  head.validate();
  const graph::Dag& dag = model.dag();
  const int loss = dag.loss < 0 ? -1 : dag.tensor_at(dag.loss).producer;
  const bool fits = loss >= 0 && model.template operator_as<CrossEntropy>(loss) != nullptr;
  const int logits = fits ? dag.node_at(loss).inputs[0] : -1;
  const int language_head = fits ? dag.tensor_at(logits).producer : -1;
  if (language_head < 0 || model.template operator_as<Linear>(language_head) == nullptr ||
      dag.tensor_at(logits).consumers.size() != 1) {
    throw OptionError(
        "reef::nn::with_class_head: the model's loss is no nn::CrossEntropy of what a nn::Linear alone gives.\n",
        "  why: that map is the head which another takes the place of.\n  fix: a language model, without an "
        "adapter at its head and without a soft prompt.");
  }
  return graph::rewritten(model, [&](graph::Rewriting<Device, T>& to, int n) {
    if (n != language_head) return std::vector<int>{};
    const Linear score{.features = head.classes, .bias = false, .transpose = Transpose::yes};
    std::vector<int> outputs = to.result.add("score", score, to.inputs_of(n));
    to.result.rename(outputs[0], dag.tensor_at(logits).name);
    return outputs;
  });
}

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/class_head.ipp>
#endif
