#pragma once

#include <cstdint>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/gpt.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE void GptConfig::validate() const {
  const auto require_that = [](bool fits, const char* member, std::int64_t value,
                               std::string_view range) {
    if (fits) return;
    throw OptionError("reef::nn::GptConfig: ", member, " is ", value, ".\n  fix: ", range, ".");
  };
  constexpr std::int64_t tokens = std::int64_t{1} << 31;  // they are int32
  require_that(layers >= 1 && layers <= max_layers, "layers", layers,
               concat("1 to ", max_layers));
  require_that(heads >= 1, "heads", heads, "at least 1");
  require_that(channels >= 1 && channels <= 1 << 20 && channels % heads == 0, "channels", channels,
               "a multiple of heads, at most 2^20");
  require_that(vocabulary >= 1 && vocabulary < tokens, "vocabulary", vocabulary, "1 to 2^31 - 1");
  require_that(context >= 1 && context <= 1 << 24, "context", context, "1 to 2^24");
  require_that(batch >= 1 && batch <= tokens / context, "batch", batch,
               "at least 1, and at most 2^31 tokens");
  require_that(sequence >= 0 && sequence <= context, "sequence", sequence, "at most the context");
  require_that(
      padded_vocabulary == 0 || (padded_vocabulary >= vocabulary && padded_vocabulary < tokens),
      "padded_vocabulary", padded_vocabulary, "0, or from the vocabulary to 2^31 - 1");
  check_dropout_rate(dropout);
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
