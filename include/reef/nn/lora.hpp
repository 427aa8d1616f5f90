#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/lora_linear.hpp>
#include <reef/nn/prompt_embedding.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The options of low-rank adapters (LoRA).
///
/// | rank, alpha | those of nn::LoraLinear: the update of a weight is alpha / rank B A                       |
/// | targets     | names of nn::Linear nodes, or last parts of names: "q_proj" selects all "....q_proj"; the |
/// |             | single target "all-linear" selects all but the head (lm_head, embed_out); empty: q_proj   |
/// |             | and v_proj, c_attn, or query_key_value; several that select one node are as one           |
/// | class_head  | true if the adapter's folder also has a class head, that of nn::with_class_head           |
struct Lora {
  std::int64_t rank = 8;
  double alpha = 16;
  std::vector<std::string> targets{};
  bool class_head = false;

  /// Throws OptionError, naming the first invalid member of the adapter's options.
  void validate() const;

  /// Returns the index of the first of `targets` that selects the node; -1 if none does. Without targets, returns 0 for
  /// the nodes that are selected by default.
  [[nodiscard]] int target_of(std::string_view node) const;
};

/// Returns true if a parameter is one of a low-rank adapter: NAME.lora_A.weight or NAME.lora_B.weight.
bool is_of_lora(std::string_view parameter);

/// Returns the model with low-rank adapters: the selected nn::Linear nodes become nn::LoraLinear nodes, of which only
/// the matrices A and B are trained; all other parameters are frozen.
///
/// | names  | nodes, tensors and parameters keep their names; adapters have NODE.lora_A.weight and                  |
/// |        | NODE.lora_B.weight                                                                                    |
/// | bits   | B begins as zeros, so that the model at first computes the same                                       |
/// | errors | OptionError for a target that selects no nn::Linear, if no node is selected, and for a model that has |
/// |        | a soft prompt                                                                                         |
///
/// \code
/// #include <reef/nn/llama.hpp>
/// const nn::LlamaConfig config{
///     .layers = 2, .heads = 4, .kv_heads = 2, .channels = 64, .hidden = 128, .vocabulary = 256};
/// const auto base = nn::llama<device::Host, float>(config);
/// const auto model = nn::with_lora(base, {.rank = 4, .alpha = 8, .targets = {"q_proj", "v_proj"}});
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> with_lora(const graph::Graph<Device, T>& model, const Lora& lora) {
  lora.validate();
  for (const graph::Parameter& parameter : model.dag().parameters) {
    if (!is_of_prompt(parameter.name)) continue;
    throw OptionError("reef::nn::with_lora: the model has a soft prompt, '", parameter.name,
                      "'.\n  why: an adapter's file is of one kind.\n  fix: the model without it.");
  }
  std::map<int, LoraLinear> others;
  std::vector<bool> found(lora.targets.size());
  for (int n = 0; n < model.dag().node_count(); ++n) {
    const Linear* const linear = model.template operator_as<Linear>(n);
    if (linear == nullptr || lora.target_of(model.dag().node_at(n).name) < 0) continue;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i]) found[i] = Lora{.targets = {lora.targets[i]}}.target_of(model.dag().node_at(n).name) == 0;
    }
    others.emplace(n, LoraLinear{*linear, lora.rank, lora.alpha});
  }
  for (std::size_t i = 0; i < found.size() || others.empty(); ++i) {
    if (i < found.size() && found[i]) continue;
    throw OptionError(
        "reef::nn::with_lora: ",
        found.empty() ? "no target is given, and" : concat("the target '", lora.targets[i], "':"),
        " no linear map of the model has ", found.empty() ? "a usual target's name" : "such a name",
        ".\n  fix: the last parts of names of nn::Linear nodes, such as q_proj.");
  }
  graph::Graph<Device, T> result = model.with_operators(others);
  for (const graph::Parameter& parameter : graph::Dag(result.dag()).parameters) {
    if (!is_of_lora(parameter.name)) result.freeze(parameter.name);
  }
  return result;
}

/// Returns the elements of a parameter for a model without adapters that computes the same: W + alpha / rank B A for
/// the weight W of a nn::LoraLinear, and any other parameter unchanged. values(name) returns a parameter's elements.
///
/// Throws OptionError for a weight that several nodes share, of which one has an adapter.
template <real T, class Device, real Of, class Values>
std::vector<T> merged_lora(const graph::Graph<Device, Of>& model, std::string_view name,
                           Values&& values) {
  std::vector<T> merged = values(std::string(name));
  const graph::Dag& dag = model.dag();
  const graph::Parameter& parameter = dag.parameter_at(dag.parameter(name));
  for (const int id : parameter.uses) {
    const graph::Use use = dag.use_at(id);
    const LoraLinear* const op = model.template operator_as<LoraLinear>(use.node);
    if (op == nullptr || use.slot != 0) continue;
    if (parameter.uses.size() > 1) {
      throw OptionError("reef::nn::merged_lora: '", name, "' is used ", parameter.uses.size(),
                        " times, and adapted in the node '", dag.node_at(use.node).name,
                        "'.\n  why: without the adapter the other uses would change too.\n  fix: "
                        "write the adapter alone.");
    }
    const auto of = [&](std::size_t slot) {
      return values(dag.parameter_at(dag.use_at(dag.node_at(use.node).uses[slot]).parameter).name);
    };
    const std::size_t a_slot = op->linear.bias ? 2 : 1;
    const std::vector<T> a = of(a_slot);      // (rank, K)
    const std::vector<T> b = of(a_slot + 1);  // (N, rank)
    const auto rank = static_cast<std::size_t>(op->rank);
    const auto N = static_cast<std::size_t>(op->linear.features);
    const std::size_t K = merged.size() / N;
    for (std::size_t n = 0; n < N; ++n) {
      for (std::size_t k = 0; k < K; ++k) {
        double sum = 0;
        for (std::size_t r = 0; r < rank; ++r) {
          sum += static_cast<double>(static_cast<sum_t<T>>(b[n * rank + r])) *
                 static_cast<double>(static_cast<sum_t<T>>(a[r * K + k]));
        }
        T& to = merged[op->linear.transpose == Transpose::no ? k * N + n : n * K + k];
        to = static_cast<T>(static_cast<sum_t<T>>(static_cast<double>(static_cast<sum_t<T>>(to)) +
                                                  op->alpha / static_cast<double>(op->rank) * sum));
      }
    }
  }
  return merged;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/lora.ipp>
#endif
