#pragma once

#include <cstdint>

#include <reef/core/inline.hpp>
#include <reef/nn/detail/config_limits.hpp>
#include <reef/nn/llama_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE void LlamaConfig::validate() const {
  const detail::ConfigLimits limits("LlamaConfig");
  constexpr std::int64_t wide = detail::ConfigLimits::wide;
  limits.require_sizes(*this);
  limits.require_range(kv_heads >= 0 && heads % heads_of_keys() == 0, "kv_heads", kv_heads,
                       "a divisor of heads, or 0 for as many");
  limits.require_range(head_size >= 0 && head_size <= wide, "head_size", head_size, "an even number up to 2^20, or 0");
  limits.require_range(head_size != 0 || channels % heads == 0, "channels", channels,
                       "a multiple of heads, where no head_size is given");
  limits.require_range(size_of_head() >= 2 && size_of_head() % 2 == 0, "head_size", size_of_head(),
                       "an even number: positions turn pairs");
  limits.width("hidden", hidden);
  limits.require_batch(*this, context, "at most the context");
  limits.require_rotary(rotary);
  limits.require_range(window >= 0, "window", window, "0, or how many tokens one sees");
  limits.require_range(window_from >= 0, "window_from", window_from, "0, or the first layer with a window");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
