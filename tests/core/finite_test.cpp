#include <reef/core/finite.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

// Compiled with -ffast-math, which takes std::isfinite and x != x for constants.

namespace reef::test {

namespace {

template <class T, class Word>
T of_bits(Word bits) {
  return std::bit_cast<T>(bits);
}

template <class T>
void expect_finite(bool finite, T value) {
  EXPECT_EQ(is_finite(value), finite);
}

TEST(Finite, is_told_by_the_bits_also_where_the_build_assumes_that_all_numbers_are) {
#if !defined(__FAST_MATH__)
  ADD_FAILURE() << "compiled without -ffast-math";
#endif
  for (const std::uint32_t sign : {0U, 0x80000000U}) {
    expect_finite(true, of_bits<float>(sign | 0x00000000U));
    expect_finite(true, of_bits<float>(sign | 0x00000001U));  // denormal
    expect_finite(true, of_bits<float>(sign | 0x7F7FFFFFU));  // the largest
    expect_finite(false, of_bits<float>(sign | 0x7F800000U));
    expect_finite(false, of_bits<float>(sign | 0x7F800001U));
    expect_finite(false, of_bits<float>(sign | 0x7FFFFFFFU));
  }
  for (const std::uint64_t sign : {std::uint64_t{0}, std::uint64_t{1} << 63}) {
    expect_finite(true, of_bits<double>(sign | 1));
    expect_finite(true, of_bits<double>(sign | 0x7FEFFFFFFFFFFFFFU));
    expect_finite(false, of_bits<double>(sign | 0x7FF0000000000000U));
    expect_finite(false, of_bits<double>(sign | 0x7FF0000000000001U));
    expect_finite(false, of_bits<double>(sign | 0x7FF8000000000000U));
  }
  expect_finite(true, Bfloat16::from_bits(0x7F7F));
  expect_finite(false, Bfloat16::from_bits(0x7F80));
  expect_finite(false, Bfloat16::from_bits(0xFFFF));
}

TEST(Finite, is_told_of_what_was_computed) {
  volatile double zero = 0;
  volatile float large = 3e38F;
  EXPECT_FALSE(is_finite(zero / zero));
  EXPECT_FALSE(is_finite(1 / zero));
  EXPECT_FALSE(is_finite(large * 10));
  EXPECT_TRUE(is_finite(large * 1));
}

TEST(Finite, what_is_no_number_is_within_no_bounds) {
  const auto nan = of_bits<double>(std::uint64_t{0x7FF8000000000000U});
  const auto infinite = of_bits<double>(std::uint64_t{0x7FF0000000000000U});
  EXPECT_FALSE(within(nan, 0, 1));
  EXPECT_FALSE(within(infinite, 0, 1e308));
  EXPECT_TRUE(within(0, 0, 1));
  EXPECT_TRUE(within(1, 0, 1));
  EXPECT_FALSE(within(1.001, 0, 1));
  EXPECT_FALSE(within(-0.001, 0, 1));
}

}  // namespace

}  // namespace reef::test
