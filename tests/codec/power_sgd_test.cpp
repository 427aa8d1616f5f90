// PowerSgd: the projection that it sends, how it comes to the best one, and what it remembers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <reef/codec.hpp>
#include <reef/core/error.hpp>

#include "messages.hpp"

namespace reef::test {
namespace {

double product(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double norm_of_difference(const Numbers& a, const Numbers& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(squares);
}

Numbers zeros_of(const codec::PowerSgd& format, std::size_t n) {
  return Numbers(static_cast<std::size_t>(format.state(static_cast<std::int64_t>(n))), 0.0F);
}

/// (rows, columns), of these singular values: on a diagonal between two reflections.
Numbers matrix_of(std::size_t rows, std::size_t columns, const std::vector<double>& singular) {
  const auto reflection = [](std::size_t n, std::uint64_t seed) {
    const Numbers v = normal_numbers(n, seed);
    double squares = 0;
    for (const float one : v) squares += std::pow(static_cast<double>(one), 2);
    std::vector<double> h(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        h[i * n + j] = (i == j ? 1 : 0) - 2 * static_cast<double>(v[i]) * static_cast<double>(v[j]) / squares;
      }
    }
    return h;
  };
  const std::vector<double> left = reflection(rows, 1);
  const std::vector<double> right = reflection(columns, 2);
  Numbers matrix(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < singular.size(); ++k) sum += left[i * rows + k] * singular[k] * right[k * columns + j];
      matrix[i * columns + j] = static_cast<float>(sum);
    }
  }
  return matrix;
}

TEST(PowerSgd, a_matrix_of_its_rank_decodes_to_itself) {
  const Numbers matrix = matrix_of(30, 20, {5, 3, 1});
  for (const std::int64_t rank : {3, 4, 7}) {  // more, too: what is none of them becomes 0
    const codec::PowerSgd format{.columns = 20, .rank = rank};
    Numbers state = zeros_of(format, matrix.size());
    const Message message = encoded_after(format, matrix, state, state);
    EXPECT_LT(norm_of_difference(decoded(format, message, matrix.size()), matrix), 1e-5) << rank;
  }
}

TEST(PowerSgd, comes_to_the_best_of_its_rank_by_what_it_remembers) {
  const std::vector<double> singular{5, 4, 3, 1, 0.5, 0.5, 0.5, 0.5, 0.2, 0.1};
  const Numbers matrix = matrix_of(40, 25, singular);
  const codec::PowerSgd format{.columns = 25, .rank = 3};
  Numbers state = zeros_of(format, matrix.size());
  std::vector<double> errors;
  for (int message = 0; message < 12; ++message) {
    errors.push_back(norm_of_difference(decoded(format, encoded_after(format, matrix, state, state), matrix.size()), matrix));
    EXPECT_LE(errors.back(), errors[errors.size() > 1 ? errors.size() - 2 : 0] + 1e-5);
  }
  double best = 0;
  for (std::size_t k = 3; k < singular.size(); ++k) best += singular[k] * singular[k];
  EXPECT_NEAR(errors.back(), std::sqrt(best), 1e-4);
  EXPECT_GT(errors.front(), 1.05 * std::sqrt(best));
}

TEST(PowerSgd, takes_the_bytes_that_it_says_of_any_number_of_numbers) {
  for (const std::size_t n : {0U, 1U, 2U, 7U, 8U, 9U, 50U, 63U, 64U, 65U}) {
    for (const std::int64_t rank : {1, 4}) {
      const codec::PowerSgd format{.columns = 8, .rank = rank};
      const Numbers values = normal_numbers(n, n + 1);
      Numbers state = zeros_of(format, n);
      const Message message = encoded_after(format, values, state, state);
      const std::size_t rows = (n + 7) / 8;
      const std::size_t kept = std::min({static_cast<std::size_t>(rank), rows, std::size_t{8}});
      EXPECT_EQ(message.size(), format.encoded_bytes(static_cast<std::int64_t>(n)));
      EXPECT_EQ(message.size(), 32 + 4 * kept * (rows + std::min<std::size_t>(n, 8))) << n;
      const Numbers back = decoded(format, message, n);
      if (rows <= kept) {
        EXPECT_LT(norm_of_difference(back, values), 1e-5) << n;
        continue;
      }
      // A projection: what is lost is at right angles to what is left, of which there is some. Behind the last of n numbers
      // it has others, which are not decoded.
      const double left = product(back, back);
      EXPECT_GT(left, 1e-3 * product(values, values)) << n << ", rank " << rank;
      EXPECT_GE(product(back, values), left - 1e-4) << n << ", rank " << rank;
      if (n % 8 == 0) {
        EXPECT_NEAR(product(back, values), left, 1e-4) << n << ", rank " << rank;
      }
    }
  }
}

/// A rank-2 part of each matrix is sent, and the rest later: what was decoded comes to what was given.
TEST(PowerSgd, loses_nothing_under_error_feedback_which_remembers_for_both) {
  const codec::ErrorFeedback<codec::PowerSgd> format{{.columns = 12, .rank = 2}};
  const std::size_t n = 120;
  EXPECT_EQ(format.state(120), 120 + 24);
  EXPECT_EQ(format.received_state(120), 0);
  Numbers state(144, 0.0F);
  std::vector<double> given(n);
  std::vector<double> received(n);
  const int steps = 60;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const Numbers values = normal_numbers(n, 20);
    Numbers next(144);
    const Message message = encoded_after(format, values, state, next);
    Numbers back(n);
    codec::decode(format, message, {}, {}, back);
    Numbers in_place = state;
    EXPECT_EQ(encoded_after(format, values, in_place, in_place), message);
    EXPECT_EQ(in_place, next);
    float missing = 0;
    for (std::size_t i = 0; i < n; ++i) {
      missing = std::max(missing, std::abs(back[i] + next[i] - values[i] - state[i]));
      given[i] += static_cast<double>(values[i]);
      received[i] += static_cast<double>(back[i]);
    }
    ASSERT_LT(missing, 1e-5) << "of a number in step " << step
                             << ", which was neither sent nor kept";
    state = next;
  }
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(received[i] / steps, given[i] / steps, 0.2);
}

TEST(PowerSgd, a_refused_message_or_memory_changes_nothing) {
  const codec::PowerSgd format{.columns = 10, .rank = 2};
  const Numbers values = normal_numbers(100, 9);
  Numbers state(20, 0.5F);
  Numbers out(100, 7.0F);
  Numbers next(20);
  const Message message = encoded_after(format, values, state, next);
  for (std::size_t at = 0; at < message.size(); ++at) {
    Message damaged = message;
    damaged[at] ^= std::byte{4};
    EXPECT_THROW(format.decode(damaged, out), DecodeError);
    EXPECT_THROW(format.decode(std::span(message).first(at), out), DecodeError);
  }
  EXPECT_THROW((codec::PowerSgd{.columns = 5, .rank = 2}.decode(message, out)), DecodeError);
  EXPECT_EQ(out, Numbers(100, 7.0F));
  Message small(40);
  EXPECT_THROW(format.encode(values, state, state, small), OptionError);
  Numbers few(19);
  Message room(message.size());
  EXPECT_THROW(format.encode(values, few, state, room), OptionError);
  EXPECT_THROW(format.encode(values, state, few, room), OptionError);
  EXPECT_EQ(state, Numbers(20, 0.5F));
  EXPECT_THROW(static_cast<void>(codec::PowerSgd{.columns = 0}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::PowerSgd{.columns = 1, .rank = 0}.encoded_bytes(1)), OptionError);
}

TEST(PowerSgd, zeros_are_zeros_and_what_is_not_finite_is_seen) {
  const codec::PowerSgd format{.columns = 10, .rank = 2};
  Numbers state(20, 0.0F);
  EXPECT_EQ(decoded(format, encoded_after(format, Numbers(100), state, state), 100), Numbers(100));
  EXPECT_EQ(state, Numbers(20)) << "and the next begins anew";
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    Numbers values = normal_numbers(100, 3);
    values[55] = bad;
    Numbers next(20);
    EXPECT_TRUE(std::isnan(decoded(format, encoded_after(format, values, state, next), 100)[55])) << bad;
  }
}

}  // namespace
}  // namespace reef::test
