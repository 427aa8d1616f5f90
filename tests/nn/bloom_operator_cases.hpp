#pragma once

#include <cstdint>
#include <vector>

#include <reef/nn/exact_gelu.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/rotary.hpp>
#include <reef/nn/split_heads.hpp>

#include "../laws/operator.hpp"

/// What BLOOM and GPT-NeoX add to the operators, as cases of OperatorLaws.
namespace reef::test {

struct SumsCase {
  static constexpr std::int32_t classes = 1;
  static constexpr double tolerance = 64;
  static constexpr bool stochastic = false;
};

struct AlibiCase : SumsCase {
  static std::vector<InputCase> inputs() { return {{"q", {2, 5, 24}}, {"k", {2, 5, 12}}, {"v", {2, 5, 12}}}; }
  static auto op() { return nn::GroupedAttention{.heads = 4, .kv_heads = 2, .alibi = true}; }
};

/// Of six heads, which are no power of two, over two tiles, with a window and one head of keys.
struct AlibiWindowCase : SumsCase {
  static std::vector<InputCase> inputs() { return {{"q", {1, 70, 18}}, {"k", {1, 70, 3}}, {"v", {1, 70, 3}}}; }
  static auto op() { return nn::GroupedAttention{.heads = 6, .kv_heads = 1, .window = 9, .alibi = true}; }
};

struct AlibiDropoutCase : SumsCase {
  static std::vector<InputCase> inputs() { return {{"q", {2, 5, 12}}, {"k", {2, 5, 12}}, {"v", {2, 5, 12}}}; }
  static auto op() { return nn::GroupedAttention{.heads = 4, .kv_heads = 4, .dropout = 0.3F, .alibi = true}; }
  static constexpr bool stochastic = true;
};

struct ElementCase : SumsCase {
  static constexpr double tolerance = 16;
};

struct PartialRotaryCase : ElementCase {
  static std::vector<InputCase> inputs() { return {{"in", {2, 37, 18}}}; }  // beyond a block of positions
  static auto op() { return nn::Rotary{.head_size = 9, .turned = 4}; }
};

struct ExactGeluCase : ElementCase {
  static std::vector<InputCase> inputs() { return {{"in", {3, 37}}}; }
  static auto op() { return nn::ExactGelu{}; }
};

struct SplitHeadsCase : ElementCase {
  static std::vector<InputCase> inputs() { return {{"in", {2, 3, 45}}}; }
  static auto op() { return nn::SplitHeads{3}; }
};

}  // namespace reef::test
