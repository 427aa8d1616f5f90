#pragma once

#include <algorithm>
#include <cstddef>

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

REEF_INLINE bool is_of_layer_prompt(std::string_view parameter) {
  return parameter.ends_with(".prompt.prompt_embeddings");
}

namespace detail {

REEF_INLINE std::string_view layer_of(std::string_view node) {
  std::size_t begin = 0;
  while (begin < node.size()) {
    const std::size_t end = (std::min)(node.find('.', begin), node.size());
    const std::string_view part = node.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number && begin > 0 && end < node.size()) return node.substr(0, end);
    begin = end + 1;
  }
  return {};
}

}  // namespace detail

REEF_INLINE std::int64_t prompt_tokens_of(const graph::Dag& model) {
  for (const graph::Parameter& parameter : model.parameters) {
    if (is_of_prompt(parameter.name)) return parameter.spec.shape[0];
  }
  return 0;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
