#pragma once

#include <cstdint>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/nn/llama_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE void LlamaConfig::validate() const {
  const auto require_that = [](bool fits, const char* member, auto value, std::string_view range) {
    if (fits) return;
    throw OptionError("reef::nn::LlamaConfig: ", member, " is ", value, ".\n  fix: ", range, ".");
  };
  constexpr std::int64_t tokens = std::int64_t{1} << 31;  // they are int32
  constexpr std::int64_t wide = std::int64_t{1} << 20;
  require_that(layers >= 1 && layers <= most_layers, "layers", layers, concat("1 to ", most_layers));
  require_that(heads >= 1 && heads <= wide, "heads", heads, "1 to 2^20");
  require_that(kv_heads >= 0 && heads % heads_of_keys() == 0, "kv_heads", kv_heads, "a divisor of heads, or 0 for as many");
  require_that(channels >= 1 && channels <= wide, "channels", channels, "1 to 2^20");
  require_that(head_size >= 0 && head_size <= wide, "head_size", head_size, "an even number up to 2^20, or 0");
  require_that(head_size != 0 || channels % heads == 0, "channels", channels, "a multiple of heads, where no head_size is given");
  require_that(size_of_head() >= 2 && size_of_head() % 2 == 0, "head_size", size_of_head(), "an even number: positions turn pairs");
  require_that(hidden >= 1 && hidden <= wide, "hidden", hidden, "1 to 2^20");
  require_that(vocabulary >= 1 && vocabulary < tokens, "vocabulary", vocabulary, "1 to 2^31 - 1");
  require_that(context >= 1 && context <= 1 << 24, "context", context, "1 to 2^24");
  require_that(sequence >= 0 && sequence <= context, "sequence", sequence, "at most the context");
  require_that(batch >= 1 && batch <= tokens / length(), "batch", batch, "at least 1, and at most 2^31 tokens");
  require_that(is_finite(epsilon) && epsilon >= 0, "epsilon", epsilon, "0 or more");
  require_that(is_finite(rotary.theta) && rotary.theta > 0, "rotary.theta", rotary.theta, "above 0");
  require_that(is_finite(rotary.factor) && rotary.factor > 0, "rotary.factor", rotary.factor, "above 0; 1 stretches nothing");
  require_that(rotary.original >= 0, "rotary.original", rotary.original, "0, or the positions that were trained with");
  require_that(is_finite(rotary.low) && rotary.low > 0, "rotary.low", rotary.low, "above 0");
  require_that(is_finite(rotary.high) && rotary.high > rotary.low, "rotary.high", rotary.high, "above rotary.low");
  require_that(window >= 0, "window", window, "0, or how many tokens one sees");
  require_that(window_from >= 0, "window_from", window_from, "0, or the first layer with a window");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
