#include <reef/data/permutation.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace {

using namespace reef;

TEST(Permutation, is_a_bijection_for_every_size) {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    const data::Permutation permutation(size, {7, 3, 0, 1});
    std::vector<bool> seen(size, false);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t to = permutation(i);
      ASSERT_LT(to, size);
      EXPECT_FALSE(seen[to]) << size;
      seen[to] = true;
    }
  }
}

TEST(Permutation, is_a_bijection_around_powers_of_two_and_four) {
  for (const std::uint64_t size : {1023U, 1024U, 1025U, 4095U, 4096U, 4097U, 99'991U}) {
    const data::Permutation permutation(size, {1, 2, 0, 3});
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
  }
}

TEST(Permutation, stays_inside_sizes_that_no_memory_could_hold) {
  const std::uint64_t size = (std::uint64_t{1} << 61) + 12345;
  const data::Permutation permutation(size, {1, 0, 0, 0});
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = size - 1000; i < size; ++i) {
    EXPECT_LT(permutation(i), size);
    seen.insert(permutation(i));
  }
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(Permutation, depends_on_seed_and_epoch_and_not_on_the_draw) {
  const auto order = [](DrawKey key) {
    std::vector<std::uint64_t> to;
    const data::Permutation permutation(50, key);
    for (std::uint64_t i = 0; i < 50; ++i) to.push_back(permutation(i));
    return to;
  };
  EXPECT_EQ(order({1, 2, 0, 3}), order({1, 2, 9, 3}));
  EXPECT_NE(order({1, 2, 0, 3}), order({2, 2, 0, 3}));
  EXPECT_NE(order({1, 2, 0, 3}), order({1, 3, 0, 3}));
  EXPECT_NE(order({1, 2, 0, 3}), order({1, 2, 0, 4}));
}

TEST(Permutation, sends_each_index_everywhere_about_equally_often) {
  constexpr std::uint64_t size = 11;
  constexpr std::uint64_t trials = 11'000;
  std::vector<std::vector<double>> count(size, std::vector<double>(size, 0));
  for (std::uint64_t epoch = 0; epoch < trials; ++epoch) {
    const data::Permutation permutation(size, {5, epoch, 0, 0});
    for (std::uint64_t i = 0; i < size; ++i) count[i][permutation(i)] += 1;
  }
  const double expected = static_cast<double>(trials) / size;
  double chi2 = 0;
  for (const auto& row : count) {
    for (const double c : row) chi2 += (c - expected) * (c - expected) / expected;
  }
  // 100 degrees of freedom: mean 100, standard deviation sqrt(200).
  EXPECT_LT(chi2, 100 + 5 * std::sqrt(200.0));
  EXPECT_GT(chi2, 100 - 5 * std::sqrt(200.0));
}

}  // namespace
