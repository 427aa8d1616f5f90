#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include <reef/comm/message.hpp>

#include "../support/same_bits.hpp"

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

/// The first n of `known`, of which those that are missing are computed now: a test asks for the same
/// numbers many times, and computing them would take most of its time.
template <class T, class Compute>
std::vector<T> first_of(std::vector<T>& known, std::int64_t n, Compute compute) {
  for (std::int64_t i = std::ssize(known); i < n; ++i) known.push_back(compute(i));
  return {known.begin(), known.begin() + n};
}

template <class T>
std::vector<T> inputs_of(int rank, std::int64_t n, std::uint64_t salt = 0) {
  thread_local std::map<std::pair<int, std::uint64_t>, std::vector<T>> known;
  return first_of(known[{rank, salt}], n,
                  [=](std::int64_t i) { return input_of<T>(rank, i, salt); });
}

/// ((x_0 + x_1) + x_2) + ...: the order that the collectives promise.
template <class T>
std::vector<T> sum_of_ranks(int ranks, std::int64_t n, std::uint64_t salt = 0) {
  thread_local std::map<std::pair<int, std::uint64_t>, std::vector<T>> known;
  return first_of(known[{ranks, salt}], n, [=](std::int64_t i) {
    T sum = input_of<T>(0, i, salt);
    for (int rank = 1; rank < ranks; ++rank) sum += input_of<T>(rank, i, salt);
    return sum;
  });
}

}  // namespace reef::test
