#pragma once

#include <cmath>
#include <cstdint>

#include <reef/core/config.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// Gives the slope of head h of H in ALiBi: 2^(-8 i / n), i = 1, 2, ..., with n the largest power of two up to H;
/// behind these the odd ones of 2 n. Source: Press et al., arXiv 2108.12409; huggingface/transformers,
/// models/bloom/modeling_bloom.py.
REEF_HOST_DEVICE inline double alibi_slope(std::int64_t h, std::int64_t H) {
  std::int64_t n = 1;
  while (2 * n <= H) n *= 2;
  const double place = h < n ? static_cast<double>(2 * (h + 1)) : static_cast<double>(2 * (h - n) + 1);
  return std::exp2(-4.0 * place / static_cast<double>(n));
}

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
