#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

/// The 16 values of NormalFloat4, ascending: quantiles of a normal distribution, as bitsandbytes has them.
inline constexpr std::array<std::uint32_t, 16> normal_float4_bits{
    0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0, 0xbe91a24d, 0xbe3d353f, 0xbdba7871, 0x00000000,
    0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a, 0x3ee1a4b8, 0x3f1007ab, 0x3f3913b3, 0x3f800000};

inline constexpr auto normal_float4_values = std::bit_cast<std::array<float, 16>>(normal_float4_bits);

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
