#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <reef/core/error.hpp>
#include <reef/nn/lora.hpp>

#include "numbers.hpp"

namespace reef_examples {

/// Reads "8:16:q_proj,v_proj" as adapters of rank 8, alpha 16, at those maps; "8" with alpha 16, at the usual ones. Throws
/// OptionError for what is none.
inline reef::nn::Lora lora_of(const std::string& text) {
  const std::size_t first = std::min(text.find(':'), text.size());
  const std::size_t second = std::min(text.find(':', std::min(first + 1, text.size())), text.size());
  const auto rank = parse_number<std::int64_t>(text.substr(0, first));
  reef::nn::Lora lora;
  const auto alpha = first == text.size() ? std::optional(lora.alpha)
                                          : parse_number<double>(text.substr(first + 1, second - first - 1));
  if (!rank || !alpha || second + 1 == text.size())
    throw reef::OptionError("'", text, "' is not RANK, RANK:ALPHA or RANK:ALPHA:TARGET,TARGET, as 8:16:q_proj,v_proj");
  lora.rank = *rank;
  lora.alpha = *alpha;
  for (std::size_t at = second + 1; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    lora.targets.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  lora.validate();
  return lora;
}

}  // namespace reef_examples
