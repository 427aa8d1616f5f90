#pragma once

#include <reef/core/inline.hpp>
#include <reef/nn/soft_prompt.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE void SoftPrompt::validate() const {
  constexpr std::int64_t most = 1 << 16;
  if (tokens >= 1 && tokens <= most) return;
  throw OptionError("reef::nn::SoftPrompt: tokens is ", tokens, ".\n  fix: 1 to ", most, ".");
}

REEF_INLINE std::int64_t prompt_tokens_of(const graph::Dag& model) {
  for (const graph::Parameter& parameter : model.parameters) {
    if (is_of_prompt(parameter.name)) return parameter.spec.shape[0];
  }
  return 0;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
