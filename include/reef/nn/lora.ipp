#pragma once

#include <array>
#include <cstddef>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/nn/lora.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE void Lora::validate() const {
  constexpr std::int64_t most = 1 << 16;
  if (rank < 1 || rank > most) {
    throw OptionError("reef::nn::Lora: rank is ", rank, ".\n  fix: 1 to ", most, ".");
  }
  if (!within(alpha, 0, 1e6)) {
    throw OptionError("reef::nn::Lora: alpha is ", alpha, ".\n  fix: 0 to 1e6.");
  }
  for (const std::string& target : targets) {
    if (target.empty())
      throw OptionError("reef::nn::Lora: a target has no name.\n  fix: such as q_proj.");
  }
}

REEF_INLINE int Lora::target_of(std::string_view node) const {
  const auto means = [&](std::string_view target) {
    if (target == "all-linear") return node != "lm_head" && node != "embed_out";
    return node == target || node.ends_with(concat(".", target));
  };
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (means(targets[i])) return static_cast<int>(i);
  }
  if (!targets.empty()) return -1;
  for (const std::string_view usual :
       std::array<std::string_view, 4>{"q_proj", "v_proj", "c_attn", "query_key_value"}) {
    if (means(usual)) return 0;
  }
  return -1;
}

REEF_INLINE bool is_of_lora(std::string_view parameter) {
  return parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
