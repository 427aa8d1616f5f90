#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/parameter_layout.hpp>
#include <reef/nn/gpt.hpp>

#include "tokenizer.hpp"

namespace reef_examples {

/// Draws one of the k likeliest tokens by their softmax.
inline std::int32_t draw_token(const float* logits, std::int64_t vocabulary, int k,
                               double uniform) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(vocabulary));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto end =
      order.begin() + std::min<std::ptrdiff_t>(k, static_cast<std::ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), end, order.end(),
                    [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
  order.erase(end, order.end());
  std::vector<double> weights;
  double sum = 0;
  for (const std::int32_t token : order) {
    weights.push_back(std::exp(static_cast<double>(logits[token]) - logits[order.front()]));
    sum += weights.back();
  }
  double left = uniform * sum;
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left <= 0) return order[i];
  }
  return order.back();
}

/// The prompt continued by `count` tokens, drawn with the seed. The trainer's weights, this rank
/// alone.
///
/// Runs the whole context again for each token: simple, and fast enough for a sample.
template <class TrainerType>
std::string generate(TrainerType& trainer, reef::nn::GptConfig config, const Tokenizer& tokenizer,
                     const std::string& prompt, std::int64_t count, std::uint64_t seed) {
  using Device = typename TrainerType::Device;
  using T = typename TrainerType::T;
  config.batch = 1;
  config.dropout = 0;
  const auto model = reef::nn::gpt<Device, T>(config, trainer.device().threads());
  const reef::graph::Dag& dag = model.dag();
  const int logits_id = dag.tensor("logits");
  const reef::graph::Segment segment = reef::graph::plan_segment_to(dag, logits_id);
  const reef::Shape logits_shape = dag.tensor_at(logits_id).spec.shape;
  const std::int64_t T_ = logits_shape[1];

  auto& device = trainer.device();
  reef::graph::SegmentBindings bindings(dag);
  std::vector<typename Device::Buffer> memory;
  typename Device::Lane lane(device, "generate");
  const auto run = [&](auto work) {
    lane.submit([&](typename Device::Lane& self) { work(self); });
    lane.synchronize();
  };
  const auto allocate = [&](reef::Bytes bytes) {
    memory.push_back(device.allocate(bytes, "generation"));
    return memory.back().data();
  };
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    const std::vector<T> values = trainer.parameter(dag.parameters[p].name);
    bindings.parameters[p] = allocate(values.size() * sizeof(T));
    run([&](auto& self) {
      self.copy(bindings.parameters[p], values.data(), values.size() * sizeof(T),
                reef::device::Copy::to_device);
    });
  }
  const int tokens_id = dag.tensor("tokens");
  bindings.tensor(tokens_id) = allocate(dag.tensor_at(tokens_id).spec.bytes());
  for (const int output : segment.boundary_outputs) {
    bindings.tensor(output) = allocate(dag.tensor_at(output).spec.bytes());
  }
  bindings.workspace = allocate(segment.inference_workspace_bytes);

  std::vector<std::int32_t> text = tokenizer.encode(prompt.empty() ? "\n" : prompt);
  std::vector<T> logits(static_cast<std::size_t>(logits_shape.size()));
  for (std::int64_t i = 0; i < count; ++i) {
    // The last T tokens, at the front of the window; what follows is never looked at: it is causal.
    const auto length = std::min<std::int64_t>(T_, static_cast<std::int64_t>(text.size()));
    std::vector<std::int32_t> window(static_cast<std::size_t>(T_), 0);
    std::copy(text.end() - length, text.end(), window.begin());
    run([&](auto& self) {
      self.copy(bindings.tensor(tokens_id), window.data(), window.size() * sizeof(std::int32_t),
                reef::device::Copy::to_device);
      model.forward(segment, bindings, self, {}, false);
      self.copy(logits.data(), bindings.tensor(logits_id), logits.size() * sizeof(T),
                reef::device::Copy::to_host);
    });
    const T* const last = logits.data() + (length - 1) * logits_shape[2];
    const std::vector<float> row(last, last + config.vocabulary);
    text.push_back(draw_token(row.data(), config.vocabulary, 40,
                              reef::uniform({seed, 0, 1, 0}, static_cast<std::uint64_t>(i))));
  }
  return tokenizer.decode(text);
}

}  // namespace reef_examples
