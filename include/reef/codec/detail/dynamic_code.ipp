#pragma once

#include <bit>
#include <cmath>
#include <cstddef>

#include <reef/codec/detail/dynamic_code.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

/// As bits: the recipe's own values depend on how torch rounds.
inline constexpr std::array<std::uint32_t, 127> dynamic_magnitudes{
    0x3513a3b6, 0x365a1a93, 0x370205ff, 0x37b24207, 0x38378034, 0x388aefb3, 0x38ba1f4b, 0x3923d70a,
    0x398ce704, 0x39c7e282, 0x3a016f00, 0x3a1eecc0, 0x3a3c6a7f, 0x3a59e83e, 0x3a7765fe, 0x3aa7ef9e,
    0x3af1a9fc, 0x3b1db22d, 0x3b428f5c, 0x3b676c8b, 0x3b8624dd, 0x3b989375, 0x3bab020c, 0x3bbd70a4,
    0x3bcfdf3b, 0x3be24dd3, 0x3bf4bc6a, 0x3c039581, 0x3c0ccccd, 0x3c160419, 0x3c1f3b64, 0x3c3ae148,
    0x3c68f5c3, 0x3c8b851f, 0x3ca28f5c, 0x3cb9999a, 0x3cd0a3d7, 0x3ce7ae14, 0x3cfeb852, 0x3d0ae148,
    0x3d166666, 0x3d21eb85, 0x3d2d70a4, 0x3d38f5c3, 0x3d447ae1, 0x3d500000, 0x3d5b851f, 0x3d670a3d,
    0x3d728f5c, 0x3d7e147b, 0x3d84cccd, 0x3d8a8f5c, 0x3d9051ec, 0x3d96147b, 0x3d9bd70a, 0x3da1999a,
    0x3da75c29, 0x3dad1eb8, 0x3db2e148, 0x3db8a3d7, 0x3dbe6666, 0x3dc428f6, 0x3dc9eb85, 0x3ddb3333,
    0x3df80000, 0x3e0a6666, 0x3e18cccd, 0x3e273333, 0x3e35999a, 0x3e440000, 0x3e526666, 0x3e60cccd,
    0x3e6f3333, 0x3e7d999a, 0x3e860000, 0x3e8d3333, 0x3e946666, 0x3e9b999a, 0x3ea2cccd, 0x3eaa0000,
    0x3eb13333, 0x3eb86666, 0x3ebf999a, 0x3ec6cccd, 0x3ece0000, 0x3ed53333, 0x3edc6666, 0x3ee3999a,
    0x3eeacccd, 0x3ef20000, 0x3ef93333, 0x3f003333, 0x3f03cccd, 0x3f076666, 0x3f0b0000, 0x3f0e999a,
    0x3f123333, 0x3f15cccd, 0x3f196666, 0x3f1d0000, 0x3f20999a, 0x3f243333, 0x3f27cccd, 0x3f2b6666,
    0x3f2f0000, 0x3f32999a, 0x3f363333, 0x3f39cccd, 0x3f3d6666, 0x3f410000, 0x3f44999a, 0x3f483333,
    0x3f4bcccd, 0x3f4f6666, 0x3f530000, 0x3f56999a, 0x3f5a3333, 0x3f5dcccd, 0x3f616666, 0x3f650000,
    0x3f68999a, 0x3f6c3333, 0x3f6fcccd, 0x3f736666, 0x3f770000, 0x3f7a999a, 0x3f7e3333};

inline std::array<float, 256> dynamic_values() {
  std::array<float, 256> values{};
  for (std::size_t k = 0; k < dynamic_magnitudes.size(); ++k) {
    values[128 + k] = std::bit_cast<float>(dynamic_magnitudes[k]);
    values[126 - k] = -values[128 + k];
  }
  values[255] = 1;
  return values;
}

/// The last numbers that are no nearer to the next value: what is above has the higher index.
inline std::array<float, 255> dynamic_thresholds(const std::array<float, 256>& values) {
  std::array<float, 255> thresholds{};
  for (std::size_t i = 0; i < thresholds.size(); ++i) {
    const double middle = (static_cast<double>(values[i]) + static_cast<double>(values[i + 1])) / 2;
    thresholds[i] = static_cast<float>(middle);
    if (static_cast<double>(thresholds[i]) > middle) thresholds[i] = std::nextafter(thresholds[i], -2.0F);
  }
  return thresholds;
}

REEF_INLINE DynamicCode::DynamicCode()
    : values_(dynamic_values()), thresholds_(dynamic_thresholds(values_)), steps_(thresholds_) {}

REEF_INLINE const DynamicCode& dynamic_code() {
  static const DynamicCode code;
  return code;
}

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
