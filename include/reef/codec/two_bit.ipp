#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/scaled.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/product.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

REEF_INLINE std::int64_t TwoBit::blocks(std::int64_t n) const {
  if (block < 0 || block > max_elements) {
    throw OptionError("reef::codec::TwoBit: the block is of ", block, " numbers.\n  fix: from 1 to ", max_elements,
                      ", or 0, where all numbers are one.");
  }
  if (!within(sigmas, 1e-3F, 1e3F)) {
    throw OptionError("reef::codec::TwoBit: its bins span ", sigmas,
                      " standard deviations.\n  fix: from 0.001 to 1000, as 6.");
  }
  return block == 0 ? std::min<std::int64_t>(n, 1) : (n + block - 1) / block;
}

REEF_INLINE void TwoBit::quantize(std::span<const float> values, std::span<float> means,
                                  std::span<std::uint8_t> packed) const {
  std::fill(packed.begin(), packed.end(), std::uint8_t{});
  const auto n = static_cast<std::int64_t>(values.size());
  detail::each_block(n, block == 0 ? n : block, [&](std::size_t b, std::size_t begin, std::size_t end) {
    const std::span<const float> numbers = values.subspan(begin, end - begin);
    const auto count = static_cast<double>(numbers.size());
    const double mean = detail::sum_in_lanes(numbers, [](float value) { return static_cast<double>(value); }) / count;
    const double squares = detail::sum_in_lanes(numbers, [mean](float value) {
      const double centred = static_cast<double>(value) - mean;
      return product(centred, centred);
    });
    const double width =
        static_cast<double>(sigmas) / 4 * std::sqrt(squares / (std::max)(count - 1, 1.0));
    std::array<std::array<double, 4>, 4> sums{};  // by lane, i % 4, and code
    std::array<std::array<double, 4>, 4> counts{};
    for (std::size_t i = begin; i < end; ++i) {
      const double centred = static_cast<double>(values[i]) - mean;
      const unsigned code = (centred >= -width ? 1U : 0U) + (centred >= 0 ? 1U : 0U) + (centred >= width ? 1U : 0U);
      sums[i % 4][code] += static_cast<double>(values[i]);
      counts[i % 4][code] += 1;
      packed[i / 4] = static_cast<std::uint8_t>(packed[i / 4] | code << (2 * (i % 4)));
    }
    for (std::size_t code = 0; code < 4; ++code) {
      const auto all = [code](const auto& lanes) {
        return (lanes[0][code] + lanes[2][code]) + (lanes[1][code] + lanes[3][code]);
      };
      const double of_bin = all(counts) > 0 ? all(sums) / all(counts) : 0;
      means[4 * b + code] = is_finite(squares) ? static_cast<float>(of_bin) : std::numeric_limits<float>::quiet_NaN();
    }
  });
}

REEF_INLINE void TwoBit::dequantize(std::span<const float> means, std::span<const std::uint8_t> packed,
                                    std::span<float> values) const {
  const auto n = static_cast<std::int64_t>(values.size());
  detail::each_block(n, block == 0 ? n : block, [&](std::size_t b, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      values[i] = means[4 * b + (static_cast<std::size_t>(packed[i / 4]) >> (2 * (i % 4)) & 3U)];
    }
  });
}

REEF_INLINE Bytes TwoBit::encoded_bytes(std::int64_t n) const { return detail::scaled_bytes(*this, n); }
REEF_INLINE Bytes TwoBit::encode(std::span<const float> values, std::span<std::byte> message) const {
  return detail::encode_scaled(*this, values, message);
}
REEF_INLINE void TwoBit::decode(std::span<const std::byte> message, std::span<float> values) const {
  detail::decode_scaled(*this, message, values);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
