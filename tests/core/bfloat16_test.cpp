// Bfloat16: every one of its values, and the rounding of floats to them.

#include <reef/core/bfloat16.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include <reef/core/element.hpp>
#include <reef/core/random.hpp>

namespace reef {
namespace {

TEST(Bfloat16Test, every_value_survives_the_way_to_float_and_back) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto value = Bfloat16::from_bits(static_cast<std::uint16_t>(bits));
    const float wide = value;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(wide), bits << 16);
    const Bfloat16 back(wide);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(back)));
    } else {
      EXPECT_EQ(back.bits(), bits);
    }
  }
}

// The reference chooses among the two neighbours by their distances in fp64, which are exact there.
TEST(Bfloat16Test, a_float_becomes_the_nearest_value_and_of_two_the_even_one) {
  constexpr DrawKey key{.seed = 7, .op = 1};
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    std::uint32_t word = random_bits(key, i);
    if (i % 4 == 0) word = (word & 0xFFFF0000U) | 0x8000U;  // a tie
    const auto value = std::bit_cast<float>(word);
    if (std::isnan(value)) continue;
    const auto below = std::bit_cast<float>(word & 0xFFFF0000U);  // towards zero
    const double step = std::abs(static_cast<double>(std::bit_cast<float>(
                            (word & 0xFF800000U) | 0x10000U)) -
                        static_cast<double>(std::bit_cast<float>(word & 0xFF800000U)));
    if (std::isinf(value)) {
      EXPECT_EQ(static_cast<float>(Bfloat16(value)), value);
      continue;
    }
    const double past = std::abs(static_cast<double>(value) - static_cast<double>(below));
    const bool odd = (word >> 16 & 1U) != 0;
    const bool up = past > step / 2 || (past == step / 2 && odd);
    const auto expected = static_cast<std::uint16_t>((word >> 16) + (up ? 1 : 0));
    EXPECT_EQ(Bfloat16(value).bits(), expected) << value;
  }
}

TEST(Bfloat16Test, what_rounds_beyond_the_largest_is_infinite_and_a_nan_stays_one) {
  EXPECT_TRUE(std::isinf(static_cast<float>(Bfloat16(std::numeric_limits<float>::max()))));
  EXPECT_EQ(static_cast<float>(Bfloat16(-std::numeric_limits<float>::infinity())),
            -std::numeric_limits<float>::infinity());
  for (const std::uint32_t word : {0x7F800001U, 0x7FFFFFFFU, 0xFF800001U, 0xFFC00000U}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(Bfloat16(std::bit_cast<float>(word)))));
  }
}

TEST(Bfloat16Test, it_is_stored_in_two_bytes_and_summed_in_four) {
  EXPECT_EQ(size_of(Element::bfloat16), 2U);
  EXPECT_EQ(name_of(Element::bfloat16), "bf16");
  EXPECT_EQ(sum_of(Element::bfloat16), Element::float32);
  static_assert(real<Bfloat16> && std::is_same_v<sum_t<Bfloat16>, float>);
  static_assert(std::is_same_v<sum_t<double>, double>);
  Bfloat16 sum(1.0F);
  sum += 0x1p-8F;  // half of the last place: to even
  EXPECT_EQ(static_cast<float>(sum), 1.0F);
}

}  // namespace
}  // namespace reef
