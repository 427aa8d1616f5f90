#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>

#include "optim/recipes.hpp"

/// The model that learns in seconds, and its text.
namespace reef_bench {

inline constexpr std::int64_t context = 32;
inline constexpr std::int64_t batch = 2;

/// A corpus as numbers from 0, one for each different byte; of its blocks of 1000 every tenth is held out.
struct Text {
  std::vector<std::uint8_t> training;
  std::vector<std::uint8_t> held_out;
  std::int64_t vocabulary = 0;

  explicit Text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.empty()) throw reef::FileError("reef_bench: '", path, "' has no text.");
    std::array<bool, 256> used{};
    for (const char byte : bytes) used[static_cast<unsigned char>(byte)] = true;
    std::array<std::uint8_t, 256> number{};
    for (std::size_t byte = 0; byte < used.size(); ++byte) {
      number[byte] = static_cast<std::uint8_t>(vocabulary);
      if (used[byte]) ++vocabulary;
    }
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      (at / 1000 % 10 == 9 ? held_out : training)
          .push_back(number[static_cast<unsigned char>(bytes[at])]);
    }
  }
};

/// 65 568 parameters with a vocabulary of 86: 2 layers, 4 heads, 48 channels, no biases, head not tied.
/// Matrices of K rows begin with deviation 1 / sqrt(3 K), as PyTorch's, or as GPT-2's.
inline Model small_model(std::int64_t vocabulary, bool fan_in) {
  using namespace reef::nn;
  constexpr std::int64_t layers = 2;
  constexpr std::int64_t heads = 4;
  constexpr std::int64_t channels = 48;
  Model g(1);
  using reef::Element;
  const reef::Shape shape{batch, context};
  const int tokens = g.input("tokens", {shape, Element::int32});
  const int targets = g.input("targets", {shape, Element::int32});
  const auto linear = [&](const std::string& name, std::int64_t features, double gpt2, int in) {
    const auto rows = static_cast<double>(g.dag().tensor_at(in).spec.shape.last());
    const double deviation = fan_in ? 1 / std::sqrt(3 * rows) : gpt2;
    return g.add(name, Linear{features, false, Transpose::no, deviation}, {in})[0];
  };
  int x = g.add("embedding", Embedding{vocabulary, context, channels}, {tokens})[0];
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string h = "h." + std::to_string(layer) + ".";
    int y = g.add(h + "ln_1", LayerNorm{}, {x})[0];
    y = linear(h + "attn.qkv", 3 * channels, 0.02, y);
    y = g.add(h + "attn", CausalAttention{heads}, {y})[0];
    y = linear(h + "attn.out", channels, 0.01, y);
    x = g.add(h + "attn.residual", Add{}, {x, y})[0];
    y = g.add(h + "ln_2", LayerNorm{}, {x})[0];
    y = linear(h + "mlp.in", 4 * channels, 0.02, y);
    y = g.add(h + "mlp.gelu", Gelu{}, {y})[0];
    y = linear(h + "mlp.out", channels, 0.01, y);
    x = g.add(h + "mlp.residual", Add{}, {x, y})[0];
  }
  x = g.add("ln_f", LayerNorm{}, {x})[0];
  const int logits = linear("head", vocabulary, 0.02, x);
  g.loss(g.add("loss", CrossEntropy{}, {logits, targets})[0]);
  return g;
}

/// The rounds of evaluation that see each window of so many at least once.
inline int rounds_over(std::int64_t windows, const Training& training) {
  const std::int64_t in_round = training.plan().micro_batches_in_all() * batch;
  return static_cast<int>((windows + in_round - 1) / in_round);
}

}  // namespace reef_bench
