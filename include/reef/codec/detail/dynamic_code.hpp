#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <reef/core/inline.hpp>

namespace reef::inline v0::codec::detail {

/// The 8-bit dynamic code: 127 magnitudes with either sign, 0, and 1. In the decade below 10^(i - 6) are 2^i of them, the
/// middles of equal parts, so that small numbers keep their size and large ones their digits. Ascending: index 127 is 0.
///
/// Source: Dettmers, 8-bit approximations for parallelism in deep learning, arXiv 1511.04561; the values are those of
/// bitsandbytes, which Petals sends.
class DynamicCode {
public:
  DynamicCode();

  [[nodiscard]] float value(std::uint8_t index) const { return values_[index]; }

  /// The nearest value to v of [-1, 1]; of two, the lower; of NaN, index 0.
  [[nodiscard]] std::uint8_t index_of(float v) const {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > infinity) return 0;
    std::uint32_t bin = magnitude >> bin_shift;
    bin = bin < first_bin ? 0 : bin > last_bin ? last_bin - first_bin : bin - first_bin;
    const std::size_t negative = bits >> 31;
    const Bin& of = bins_[negative][bin];
    const unsigned k = of.below + (magnitude > of.threshold ? 1U : 0U);
    return static_cast<std::uint8_t>(negative != 0 ? 127U - k : 127U + k);
  }

private:
  /// Magnitudes of one exponent and six more bits: at most one threshold lies between them.
  struct Bin {
    std::uint32_t threshold = infinity;  ///< the bits of a magnitude: those above it have the next value
    std::uint32_t below = 0;             ///< how many values lie below
  };
  static constexpr std::uint32_t infinity = 0x7f800000U;
  static constexpr unsigned bin_shift = 17;
  static constexpr std::uint32_t first_bin = 104U << 6;  ///< 2^-23, below which all is 0
  static constexpr std::uint32_t last_bin = 127U << 6;   ///< 1

  std::array<float, 256> values_{};
  std::array<std::array<Bin, last_bin - first_bin + 1>, 2> bins_{};
};

/// The one that there is.
const DynamicCode& dynamic_code();

}  // namespace reef::inline v0::codec::detail

#ifndef REEF_COMPILED
#include <reef/codec/detail/dynamic_code.ipp>
#endif
