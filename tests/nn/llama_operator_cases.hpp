#pragma once

#include <cstdint>
#include <vector>

#include "../laws/operator.hpp"

/// The operators that models such as Llama add to those of a GPT, as cases of OperatorLaws.
namespace reef::test {

struct OrdinaryCase {
  static constexpr std::int32_t classes = 1;
  static constexpr double tolerance = 16;
  static constexpr bool stochastic = false;
};

struct RmsNormCase : OrdinaryCase {
  static std::vector<InputCase> inputs() { return {{"in", {2, 3, 11}}}; }
  static auto op() { return nn::RmsNorm{}; }
  static constexpr double tolerance = 64;
};

struct RmsNormOfHeadsCase : RmsNormCase {
  static std::vector<InputCase> inputs() { return {{"in", {7, 3, 10}}}; }
  static auto op() { return nn::RmsNorm{1e-5, 5}; }
};

struct RotaryCase : OrdinaryCase {
  static std::vector<InputCase> inputs() {
    return {{"in", {2, 37, 18}}};
  }  // beyond a block of positions
  static auto op() { return nn::Rotary{.head_size = 6}; }
};

struct ScaledRotaryCase : RotaryCase {
  static auto op() {
    return nn::Rotary{.head_size = 18, .theta = 500, .factor = 8, .original = 64};
  }
};

struct SiluCase : OrdinaryCase {
  static std::vector<InputCase> inputs() { return {{"in", {3, 17}}}; }
  static auto op() { return nn::Silu{}; }
};

struct ReluCase : SiluCase {
  static auto op() { return nn::Relu{}; }
};

struct SwiGluCase : OrdinaryCase {
  static std::vector<InputCase> inputs() { return {{"gate", {3, 17}}, {"up", {3, 17}}}; }
  static auto op() { return nn::SwiGlu{}; }
};

struct GroupedAttentionCase : OrdinaryCase {
  static std::vector<InputCase> inputs() {
    return {{"q", {2, 5, 24}}, {"k", {2, 5, 12}}, {"v", {2, 5, 12}}};
  }
  static auto op() { return nn::GroupedAttention{4, 2}; }
  static constexpr double tolerance = 64;
};

/// One head of keys, and tiles whose first key is not the first token.
struct WindowAttentionCase : GroupedAttentionCase {
  static std::vector<InputCase> inputs() {
    return {{"q", {1, 70, 6}}, {"k", {1, 70, 3}}, {"v", {1, 70, 3}}};
  }
  static auto op() { return nn::GroupedAttention{2, 1, 5}; }
};

struct WindowAttentionWithDropoutCase : GroupedAttentionCase {
  static auto op() { return nn::GroupedAttention{4, 4, 3, 0.3F}; }
  static std::vector<InputCase> inputs() {
    return {{"q", {2, 5, 12}}, {"k", {2, 5, 12}}, {"v", {2, 5, 12}}};
  }
  static constexpr bool stochastic = true;
};

struct TokenEmbeddingCase : OrdinaryCase {
  static std::vector<InputCase> inputs() { return {{"tokens", {3, 5}, true}}; }
  static auto op() { return nn::TokenEmbedding{6, 3}; }
  static constexpr std::int32_t classes = 5;
};

struct MeanSquaredErrorCase : OrdinaryCase {
  static std::vector<InputCase> inputs() { return {{"a", {3, 17}}, {"b", {3, 17}}}; }
  static auto op() { return nn::MeanSquaredError{}; }
};

}  // namespace reef::test
