#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/split_heads.hpp>
#include <reef/nn/token_embedding.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// A graph of a decoder under construction: inputs "tokens" and "targets", the nodes that Llama, BLOOM and GPT-NeoX
/// share, and a head with "logits" and "loss". Matrices of Linear are (out, in).
template <class Device, real T>
class DecoderGraph {
public:
  using Ref = typename graph::Graph<Device, T>::Ref;

  /// `config`: of a model with a batch, a length and layers.
  DecoderGraph(const auto& config, int threads)
      : into_residual_(deviation / std::sqrt(2.0 * static_cast<double>(config.layers))), graph_(threads) {
    const graph::TensorSpec numbers{{config.batch, config.length()}, Element::int32};
    tokens_ = graph_.input("tokens", numbers);
    targets_ = graph_.input("targets", numbers);
  }

  Ref embedded(std::string name, std::int64_t vocabulary, std::int64_t channels) {
    return apply(std::move(name), TokenEmbedding{vocabulary, channels}, {tokens_});
  }
  Ref apply(std::string name, auto op, std::vector<Ref> inputs) {
    return graph_.add(std::move(name), std::move(op), std::move(inputs))[0];
  }
  Ref linear(std::string name, std::int64_t features, bool bias, Ref x) {
    return apply(std::move(name), Linear{features, bias, Transpose::yes, deviation}, {x});
  }
  /// A linear map whose output is added to the residual stream: it begins with smaller weights.
  Ref linear_into_residual(std::string name, std::int64_t features, bool bias, Ref x) {
    return apply(std::move(name), Linear{features, bias, Transpose::yes, into_residual_}, {x});
  }

  /// Attention behind a query_key_value with SplitHeads' layout, and NAME.dense; turned(name, x) is what queries and
  /// keys become before. y: (B, T, C).
  template <class Turned>
  Ref fused_attention(const std::string& name, Ref y, std::int64_t channels, const GroupedAttention& op, bool bias,
                      const Turned& turned) {
    y = linear(name + ".query_key_value", 3 * channels, bias, y);
    const std::vector<Ref> parts = graph_.add(name + ".heads", SplitHeads{op.heads}, {y});
    const Ref q = turned(name + ".q", parts[0]);
    const Ref k = turned(name + ".k", parts[1]);
    y = apply(name, op, {q, k, parts[2]});
    return linear_into_residual(name + ".dense", channels, bias, y);
  }
  /// An MLP of dense_h_to_4h, an activation and dense_4h_to_h. y: (B, T, C).
  Ref mlp(const std::string& name, Ref y, std::int64_t channels, std::int64_t hidden, auto activation) {
    y = linear(name + ".dense_h_to_4h", hidden, true, y);
    y = apply(name + ".act", activation, {y});
    return linear_into_residual(name + ".dense_4h_to_h", channels, true, y);
  }

  /// Returns the graph with its head, whose matrix is `weight`, and its loss.
  graph::Graph<Device, T> finished(Ref x, std::int64_t vocabulary, const std::string& head, const std::string& weight) {
    const Ref logits = graph_.add(head, Linear{vocabulary, false, Transpose::yes, deviation}, {x}, {weight})[0];
    graph_.rename(logits, "logits");
    graph_.loss(graph_.add("loss", CrossEntropy{}, {logits, targets_})[0]);
    return std::move(graph_);
  }

private:
  static constexpr double deviation = 0.02;

  double into_residual_;
  graph::Graph<Device, T> graph_;
  Ref tokens_{};
  Ref targets_{};
};

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
