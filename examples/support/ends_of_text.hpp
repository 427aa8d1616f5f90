#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <reef/nn/end_tokens.hpp>

#include "tokenizer.hpp"

namespace reef_examples {

/// Returns the tokens that end a text: those that the folder of a model names, else that of the tokenizer.
inline std::vector<std::int32_t> ends_of_text(const std::string& folder, const std::optional<Tokenizer>& tokenizer,
                                              std::int64_t vocabulary) {
  std::vector<std::int32_t> ends = reef::nn::end_tokens(folder);
  const auto own = ends.empty() && tokenizer ? tokenizer->end_of_text() : std::nullopt;
  if (own) ends.push_back(*own);
  std::erase_if(ends, [&](std::int32_t token) { return token < 0 || token >= vocabulary; });  // never drawn
  return ends;
}

}  // namespace reef_examples
