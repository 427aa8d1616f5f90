#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include <reef/core/inline.hpp>
#include <reef/core/product.hpp>
#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE double RotaryFrequencies::of(std::int64_t i, std::int64_t D) const {
  const double plain = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(D));
  if (original == 0) return plain / factor;
  const double turns = product(static_cast<double>(original), plain) / (2 * std::numbers::pi);
  if (turns < low) return plain / factor;
  if (turns > high) return plain;
  const double share = (turns - low) / (high - low);  // of the pair as it is
  return product(1 - share, plain / factor) + product(share, plain);
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
