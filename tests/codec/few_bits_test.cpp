// Formats of one and two bits, and those of 16 and 32: what each number decodes to.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <reef/codec.hpp>
#include <reef/core/bfloat16.hpp>

#include "messages.hpp"

namespace reef::test {
namespace {

constexpr float nan_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite_number = std::numeric_limits<float>::infinity();

template <class Codec>
Numbers there_and_back(const Codec& format, const Numbers& values) {
  return decoded(format, encoded(format, values), values.size());
}

/// Of mean 0: only 4 and -4 are farther from it than one and a half deviations.
TEST(FewBits, two_bits_decode_to_the_mean_of_their_bin) {
  const Numbers values{-4, -1, -1, -1, 1, 1, 1, 4, -1.5F, 1.5F, -0.5F, 0.5F, 0};
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  const double width = 1.5 * std::sqrt(squares / 12);
  ASSERT_GT(width, 1.5);
  ASSERT_LT(width, 4);
  const float below = -5.0F / 5;
  const float above = 5.0F / 6;
  EXPECT_EQ(there_and_back(codec::TwoBit{}, values),
            (Numbers{-4, below, below, below, above, above, above, 4, below, above, below, above, above}));
}

TEST(FewBits, two_bits_keep_the_mean_and_are_nearer_than_signs) {
  for (const std::size_t n : {100U, 4097U}) {
    const Numbers values = normal_numbers(n, n);
    const auto error = [&](const Numbers& back) {
      double squares = 0;
      for (std::size_t i = 0; i < n; ++i) squares += std::pow(static_cast<double>(values[i] - back[i]), 2);
      return std::sqrt(squares / static_cast<double>(n));
    };
    const Numbers two = there_and_back(codec::TwoBit{}, values);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(two[i]) - static_cast<double>(values[i]);
    EXPECT_NEAR(sum / static_cast<double>(n), 0, 1e-6);
    EXPECT_LT(error(two), 0.42);
    EXPECT_GT(error(there_and_back(codec::Sign{}, values)), 0.5);
    EXPECT_LT(error(there_and_back(codec::Sign{}, values)), 0.7);
  }
}

/// What Chain<ChunkTopK, TwoBit> has of it.
TEST(FewBits, two_bits_are_a_ninth_off_of_what_a_top_k_keeps) {
  const std::size_t n = 1 << 18;
  const Numbers values = normal_numbers(n, 3);
  Numbers kept;
  for (const std::uint32_t i : codec::ChunkTopK{}.select(values)) kept.push_back(values[i]);
  const auto error_of = [&](const codec::TwoBit& format) {
    const Numbers back = there_and_back(format, kept);
    double error = 0;
    double all = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      error += std::pow(static_cast<double>(kept[i] - back[i]), 2);
      all += std::pow(static_cast<double>(kept[i]), 2);
    }
    return std::sqrt(error / all);
  };
  EXPECT_LT(error_of({}), 0.12);
  EXPECT_LT(error_of({.sigmas = 4}), 0.08);
  const Message message = encoded(codec::TwoBit{.sigmas = 4}, kept);
  EXPECT_EQ(decoded(codec::TwoBit{}, message, kept.size()), there_and_back(codec::TwoBit{.sigmas = 4}, kept));
}

TEST(FewBits, numbers_that_are_all_the_same_decode_to_themselves) {
  for (const float value : {0.0F, -0.3F, 1e-40F, 3e38F}) {
    for (const std::size_t n : {1U, 2U, 3U, 1000U}) {
      EXPECT_EQ(there_and_back(codec::TwoBit{}, Numbers(n, value)), Numbers(n, value)) << value;
      EXPECT_EQ(there_and_back(codec::Sign{}, Numbers(n, value)), Numbers(n, value)) << value;
    }
  }
}

TEST(FewBits, signs_decode_to_the_mean_magnitude_of_their_block) {
  EXPECT_EQ(there_and_back(codec::Sign{.block = 3}, {1, -2, 3, -5, 0, -0.0F, 7, -8}),
            (Numbers{2, -2, 2, -5.0F / 3, 5.0F / 3, -5.0F / 3, 7.5F, -7.5F}));
}

/// Nothing outside of its block.
TEST(FewBits, a_block_with_what_is_not_finite_decodes_so) {
  for (const float bad : {nan_number, infinite_number, -infinite_number}) {
    Numbers values = normal_numbers(30, 4);
    values[13] = bad;
    const Numbers two = there_and_back(codec::TwoBit{.block = 10}, values);
    const Numbers one = there_and_back(codec::Sign{.block = 10}, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(std::isnan(two[i]), i / 10 == 1) << i;
      EXPECT_EQ(std::isfinite(one[i]), i / 10 != 1) << i;
      EXPECT_EQ(std::isnan(one[i]), i / 10 == 1 && std::isnan(bad)) << i;
    }
    const Numbers chained = there_and_back(codec::Chain<codec::TopK, codec::TwoBit>{{.ratio = 5}, {}}, values);
    EXPECT_EQ(std::count_if(chained.begin(), chained.end(), [](float v) { return std::isnan(v); }), 6);
    EXPECT_TRUE(std::isnan(chained[13]));
  }
}

/// All codes; and of every float near one, near the middle between two, and of some others, what a search says.
TEST(FewBits, e4m3_is_the_nearest_number_and_of_two_the_even) {
  EXPECT_EQ(codec::number_of_e4m3(0x01), 0x1p-9F);
  EXPECT_EQ(codec::number_of_e4m3(0x08), 0x1p-6F);
  EXPECT_EQ(codec::number_of_e4m3(0x38), 1);
  EXPECT_EQ(codec::number_of_e4m3(0xfe), -448);
  EXPECT_TRUE(std::isnan(codec::number_of_e4m3(0x7f)) && std::isnan(codec::number_of_e4m3(0xff)));
  const auto searched = [](float magnitude) {
    std::uint8_t best = 0;
    for (std::uint8_t code = 1; code < 0x7f; ++code) {
      const auto distance = [&](std::uint8_t of) { return std::abs(static_cast<double>(codec::number_of_e4m3(of)) - static_cast<double>(magnitude)); };
      if (distance(code) < distance(best) || (distance(code) == distance(best) && code % 2 == 0)) best = code;
    }
    return best;
  };
  Numbers tried{0, 1e-40F, 3e38F, infinite_number};
  for (std::uint8_t code = 0; code < 0x7f; ++code) {
    const float number = codec::number_of_e4m3(code);
    EXPECT_EQ(codec::e4m3_of(number), code);
    EXPECT_EQ(codec::e4m3_of(-number), code | 0x80);
    for (const float near : {number, (number + codec::number_of_e4m3(static_cast<std::uint8_t>(std::min(code + 1, 0x7e)))) / 2}) {
      tried.push_back(near);
      tried.push_back(std::nextafter(near, 1e9F));
      tried.push_back(std::abs(std::nextafter(near, -1e9F)));
    }
  }
  for (const float value : normal_numbers(2000, 6)) tried.push_back(std::abs(value) * 100);
  for (const float value : tried) EXPECT_EQ(codec::e4m3_of(value), searched(std::min(value, 448.0F))) << value;
  EXPECT_EQ(codec::e4m3_of(nan_number), 0x7f);
}

TEST(FewBits, fp8_has_the_largest_of_each_row_as_it_is) {
  const Numbers values{3, -1.5F, 0, 0, 1e-42F, -1e-42F, 3e38F, 1};
  const Numbers back = there_and_back(codec::Fp8{.block = 2}, values);
  EXPECT_EQ(back, (Numbers{3, -1.5F, 0, 0, 1e-42F, -1e-42F, 3e38F, 0}));
  for (const float bad : {nan_number, infinite_number, -infinite_number}) {
    Numbers spoilt = values;
    spoilt[2] = bad;
    const Numbers seen = there_and_back(codec::Fp8{.block = 2}, spoilt);
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(std::isnan(seen[i]), i / 2 == 1) << i;
  }
}

TEST(FewBits, dense_is_what_it_was_bit_for_bit_and_bf16_what_core_rounds_to) {
  Numbers values = normal_numbers(1000, 5);
  for (const std::uint32_t bits : {0x80000000U, 1U, 0x7f800000U, 0xff800000U, 0x7fc12345U, 0x7f7fffffU, 0x3f808000U, 0x3f818000U}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  const Numbers dense = there_and_back(codec::Dense{}, values);
  EXPECT_EQ(std::memcmp(dense.data(), values.data(), 4 * values.size()), 0);
  const Numbers half = there_and_back(codec::Bf16{}, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(half[i]), std::bit_cast<std::uint32_t>(static_cast<float>(Bfloat16(values[i]))));
  }
  EXPECT_EQ(encoded(codec::Bf16{}, half), encoded(codec::Bf16{}, values)) << "what was decoded again as the same bytes";
  EXPECT_EQ(encoded(codec::Dense{}, dense), encoded(codec::Dense{}, values));
}

}  // namespace
}  // namespace reef::test
