#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/message.hpp>

// Inputs of which every rank knows all, and sums that depend on their order.

namespace reef::test {

/// The i-th element of rank r: signs and magnitudes differ so much that another order of summation
/// has other bits.
template <class T>
T input_of(int rank, std::int64_t i, std::uint64_t salt = 0) {
  const std::uint64_t bits = comm::detail::mix(static_cast<std::uint64_t>(i) * 1000003 +
                                               static_cast<std::uint64_t>(rank) * 7919 + salt);
  const double magnitude = static_cast<double>(1ULL << (bits % 24));
  const double fraction = static_cast<double>((bits >> 24) & 0xffffff) / 16777216.0 - 0.5;
  return static_cast<T>(magnitude * fraction);
}

template <class T>
std::vector<T> inputs_of(int rank, std::int64_t n, std::uint64_t salt = 0) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(input_of<T>(rank, i, salt));
  return values;
}

/// ((x_0 + x_1) + x_2) + ...: the order that the collectives promise.
template <class T>
std::vector<T> sum_of_ranks(int ranks, std::int64_t n, std::uint64_t salt = 0) {
  std::vector<T> sum = inputs_of<T>(0, n, salt);
  for (int rank = 1; rank < ranks; ++rank) {
    for (std::int64_t i = 0; i < n; ++i) {
      sum[static_cast<std::size_t>(i)] += input_of<T>(rank, i, salt);
    }
  }
  return sum;
}

/// Equal bit for bit: NaN equals itself, 0 and -0 differ.
template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return same_bits(std::span<const T>(a), std::span<const T>(b));
}

}  // namespace reef::test
