// Codecs of a cosine transform: its formula, what it is good for, and what is refused.

#include <reef/codec/dct.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/dense.hpp>
#include <reef/core/error.hpp>

#include "messages.hpp"

namespace reef::test {
namespace {

TEST(Dct, sends_the_orthonormal_transform_of_each_block_and_brings_it_back) {
  for (const std::int64_t block : {1, 2, 7, 64, 4096}) {
    const codec::Dct<codec::Dense> format{{}, block};
    for (const std::size_t n : {0U, 1U, 5U, 64U, 200U}) {
      const Numbers values = normal_numbers(n, 3);
      const Message message = encoded(format, values);
      const Numbers coefficients = decoded(codec::Dense{}, message, n);
      for (std::size_t begin = 0; begin < n; begin += static_cast<std::size_t>(block)) {
        const std::size_t size = std::min(static_cast<std::size_t>(block), n - begin);
        const auto length = static_cast<double>(size);
        for (std::size_t k = 0; k < size; ++k) {
          double expected = 0;
          for (std::size_t i = 0; i < size; ++i) {
            const double angle = std::numbers::pi * (2.0 * static_cast<double>(i) + 1) * static_cast<double>(k) / (2 * length);
            expected += double{values[begin + i]} * std::cos(angle);
          }
          expected *= std::sqrt((k == 0 ? 1 : 2) / length);
          EXPECT_NEAR(coefficients[begin + k], expected, 1e-5) << n << " in blocks of " << block;
        }
      }
      const Numbers back = decoded(format, message, n);
      for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(back[i], values[i], 1e-5) << n << " in blocks of " << block;
    }
  }
}

TEST(Dct, keeps_a_wave_in_one_coefficient) {
  Numbers wave(192);
  for (std::size_t i = 0; i < wave.size(); ++i) {
    wave[i] = static_cast<float>(std::cos(std::numbers::pi * (2 * static_cast<double>(i % 64) + 1) * 3 / 128));
  }
  const codec::ChunkTopK one{.chunk = 64, .keep = 1};
  const codec::Dct<codec::ChunkTopK> format{one, 64};
  EXPECT_EQ(format.encoded_bytes(192), one.encoded_bytes(192));
  const Numbers received = decoded(format, encoded(format, wave), wave.size());
  for (std::size_t i = 0; i < wave.size(); ++i) EXPECT_NEAR(received[i], wave[i], 1e-5);
  EXPECT_EQ(std::count(wave.begin(), wave.end(), 0.0F), 0) << "which one number of a chunk does not";
}

TEST(Dct, refuses_blocks_that_cannot_be_and_damaged_messages_and_shows_what_is_not_finite) {
  const auto bytes = [](std::int64_t block) { return codec::Dct<codec::ChunkTopK>{{}, block}.encoded_bytes(10); };
  EXPECT_THROW(static_cast<void>(bytes(0)), OptionError);
  EXPECT_THROW(static_cast<void>(bytes(4097)), OptionError);
  const codec::Dct<codec::ChunkTopK> format{{.chunk = 64, .keep = 2}, 8};
  Numbers values = normal_numbers(64, 4);
  Message message = encoded(format, values);
  message.back() ^= std::byte{1};
  Numbers out(64, 7.0F);
  EXPECT_THROW(format.decode(message, out), DecodeError);
  EXPECT_EQ(out, Numbers(64, 7.0F));
  values[17] = std::numeric_limits<float>::infinity();
  const Numbers received = decoded(format, encoded(format, values), 64);
  EXPECT_TRUE(std::any_of(received.begin(), received.end(), [](float x) { return !std::isfinite(x); }));
}

}  // namespace
}  // namespace reef::test
