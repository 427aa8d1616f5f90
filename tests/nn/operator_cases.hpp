#pragma once

#include <cstdint>
#include <vector>

#include "../laws/operator.hpp"

/// The operators of nn/ as cases of OperatorLaws, for every device. Shapes are odd on purpose.
namespace reef::test {

struct LinearCase {
  static std::vector<InputCase> inputs() { return {{"in", {3, 2, 5}}}; }
  static auto op() { return nn::Linear{7}; }
  static constexpr std::int32_t classes = 1;
  static constexpr double tolerance = 16;
  static constexpr bool stochastic = false;
};

struct TransposedLinearCase : LinearCase {
  static auto op() { return nn::Linear{9, false, nn::Transpose::yes}; }
};

struct LayerNormCase : LinearCase {
  static std::vector<InputCase> inputs() { return {{"in", {2, 3, 11}}}; }
  static auto op() { return nn::LayerNorm{}; }
  static constexpr double tolerance = 64;
};

struct AttentionCase : LinearCase {
  static std::vector<InputCase> inputs() { return {{"qkv", {2, 5, 18}}}; }
  static auto op() { return nn::CausalAttention{2}; }
  static constexpr double tolerance = 64;
};

struct AttentionWithDropoutCase : AttentionCase {
  static auto op() { return nn::CausalAttention{2, 0.3F}; }
  static constexpr bool stochastic = true;
};

struct GeluCase : LinearCase {
  static std::vector<InputCase> inputs() { return {{"in", {3, 17}}}; }
  static auto op() { return nn::Gelu{}; }
};

struct AddCase : LinearCase {
  static std::vector<InputCase> inputs() { return {{"a", {3, 5}}, {"b", {3, 5}}}; }
  static auto op() { return nn::Add{}; }
  static constexpr double tolerance = 2;
};

struct DropoutCase : LinearCase {
  static std::vector<InputCase> inputs() { return {{"in", {3, 2, 7}}}; }
  static auto op() { return nn::Dropout{0.4F}; }
  static constexpr bool stochastic = true;
};

struct EmbeddingCase : LinearCase {
  static std::vector<InputCase> inputs() { return {{"tokens", {3, 5}, true}}; }
  static auto op() {
    return nn::Embedding{6, 7, 3};
  }  // a token twice, another never; 5 of 7 positions
  static constexpr std::int32_t classes = 5;
};

struct CrossEntropyCase : LinearCase {
  static std::vector<InputCase> inputs() {
    return {{"logits", {3, 2, 13}}, {"targets", {3, 2}, true}};
  }
  static auto op() { return nn::CrossEntropy{}; }
  static constexpr std::int32_t classes = 13;
};

}  // namespace reef::test
