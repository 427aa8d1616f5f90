#include <reef/core/random.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace {

using namespace reef;

std::array<std::uint32_t, 4> words(const Philox& philox) {
  return {philox.word[0], philox.word[1], philox.word[2], philox.word[3]};
}

// kat_vectors of Random123 1.14, philox4x32 10.
TEST(Philox, gives_the_published_words) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(words(Philox(0, 0, 0, 0, 0, 0)),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(words(Philox(ones, ones, ones, ones, ones, ones)),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(Philox(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0)),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

static_assert(Philox(0, 0, 0, 0, 0, 0).word[0] == 0x6627e8d5, "Philox is computed at compile time");

TEST(RandomBits, depend_on_every_field_of_the_key_and_on_the_index) {
  const DrawKey key{1, 2, 3, 4};
  std::set<std::uint32_t> seen;
  for (const DrawKey& other :
       {key, DrawKey{2, 2, 3, 4}, DrawKey{1, 3, 3, 4}, DrawKey{1, 2, 4, 4}, DrawKey{1, 2, 3, 5},
        DrawKey{1ULL << 32 | 1, 2, 3, 4}, DrawKey{1, 1ULL << 32 | 2, 3, 4}}) {
    for (const std::uint64_t index : {0ULL, 1ULL, 2ULL, 3ULL, 4ULL, 1ULL << 34, 1ULL << 40}) {
      seen.insert(random_bits(other, index));
    }
  }
  EXPECT_EQ(seen.size(), 7U * 7);
}

TEST(RandomBits, of_neighbouring_keys_share_nothing) {
  std::set<std::uint32_t> seen;
  for (std::uint64_t sample = 0; sample < 64; ++sample) {
    for (std::uint32_t op = 0; op < 8; ++op) {
      for (std::uint64_t i = 0; i < 16; ++i) seen.insert(random_bits({7, sample, 0, op}, i));
    }
  }
  // 8192 words of 2^32: 0.008 equal pairs are expected.
  EXPECT_GE(seen.size(), 8190U);
}

TEST(RandomBits, set_each_bit_half_the_time) {
  constexpr int count = 40'000;
  std::array<int, 32> ones{};
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = random_bits({3, 0, 0, 0}, i);
    for (std::size_t bit = 0; bit < 32; ++bit) ones[bit] += static_cast<int>(bits >> bit & 1U);
  }
  for (const int one : ones) EXPECT_NEAR(one, count / 2.0, 5 * std::sqrt(count) / 2);
}

TEST(Uniform, lies_in_the_half_open_interval_with_the_law_s_moments) {
  constexpr int count = 100'000;
  double sum = 0;
  double squares = 0;
  double neighbours = 0;
  double last = 0.5;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(uniform({11, 5, 0, 2}, i));
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
    squares += x * x;
    neighbours += (x - 0.5) * (last - 0.5);
    last = x;
  }
  EXPECT_NEAR(sum / count, 0.5, 5 / std::sqrt(12.0 * count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / count));
  EXPECT_NEAR(neighbours / count, 0, 5 / (12 * std::sqrt(count)));
  EXPECT_LT(uniform_from(0xFFFFFFFFU), 1.0F);
  EXPECT_EQ(uniform_from(0), 0.0F);
}

TEST(Normal, has_the_moments_of_the_standard_law) {
  constexpr int count = 200'000;
  std::array<double, 5> moment{};
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = normal({13, 0, 1, 7}, i);
    ASSERT_TRUE(std::isfinite(x));
    double power = 1;
    for (double& m : moment) {
      m += power / count;
      power *= x;
    }
  }
  // The variance of x^k is E x^2k - (E x^k)^2.
  EXPECT_NEAR(moment[1], 0, 5 * std::sqrt(1.0 / count));
  EXPECT_NEAR(moment[2], 1, 5 * std::sqrt(2.0 / count));
  EXPECT_NEAR(moment[3], 0, 5 * std::sqrt(15.0 / count));
  EXPECT_NEAR(moment[4], 3, 5 * std::sqrt(96.0 / count));
}

TEST(Normal, quantile_inverts_the_distribution_function) {
  for (double p = 0.5e-9; p < 1; p = p < 0.01 ? p * 1.7 : p + 0.0037) {
    const double x = detail::normal_quantile(p);
    EXPECT_NEAR(0.5 * std::erfc(-x / std::sqrt(2.0)) / p, 1, 3e-8) << p;
  }
  EXPECT_NEAR(detail::normal_quantile(0.975), 1.959963984540054, 1e-8);
  EXPECT_EQ(detail::normal_quantile(0.5), 0);
  // Symmetric up to the rounding of 1 - p.
  EXPECT_NEAR(detail::normal_quantile(0.001), -detail::normal_quantile(0.999), 1e-12);
}

TEST(Normal, its_logarithm_is_that_of_the_library) {
  for (double x = 1e-10; x < 0.03; x *= 1.01) {
    EXPECT_NEAR(detail::log_exactly(x), std::log(x), 1e-14 * std::abs(std::log(x))) << x;
  }
}

}  // namespace
