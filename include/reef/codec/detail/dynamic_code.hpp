#pragma once

#include <array>
#include <cstdint>

#include <reef/codec/detail/steps.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

/// The 8-bit dynamic code: 127 magnitudes with either sign, 0, and 1. In the decade below 10^(i - 6) are 2^i of them,
/// the middles of equal parts, so that small numbers keep their size and large ones their digits. Ascending: index 127
/// is 0.
///
/// Source: Dettmers, 8-bit approximations for parallelism in deep learning, arXiv 1511.04561; the values are those of
/// bitsandbytes, which Petals sends.
class DynamicCode {
public:
  DynamicCode();

  [[nodiscard]] float value(std::uint8_t index) const { return values_[index]; }

  [[nodiscard]] const std::array<float, 256>& values() const { return values_; }

  /// The nearest value to v of [-1, 1]; of two, the lower; of NaN, index 0.
  [[nodiscard]] std::uint8_t index_of(float v) const { return steps_(v); }
  [[nodiscard]] const Steps& steps() const { return steps_; }
  /// The index of v is how many of them it is above.
  [[nodiscard]] const std::array<float, 255>& thresholds() const { return thresholds_; }

private:
  std::array<float, 256> values_;
  std::array<float, 255> thresholds_;
  Steps steps_;
};

/// The one that there is.
const DynamicCode& dynamic_code();

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/detail/dynamic_code.ipp>
#endif
