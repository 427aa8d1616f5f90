#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/cuda.hpp>
#include <reef/device/host.hpp>

#include "../laws/operator.hpp"

/// Operators on Cuda: as subjects of OperatorLaws, and against the host.
namespace reef::test {

using device::Cuda;
using device::Host;

template <class Case>
struct OnCuda : Subject<Cuda, Case> {
  static std::string unavailable() {
    std::string why;
    return device::cuda_available(&why) ? std::string() : why;
  }
};

template <class... Cases>
using AllOnCuda = ::testing::Types<OnCuda<Cases>...>;

/// The bound of a relative error between two devices: that of `roundings` of T's sums, of bf16 besides a few of its own.
template <class T>
double bound(double roundings) {
  if constexpr (std::is_same_v<T, Bfloat16>) return 4 * 0x1p-8;
  return roundings * (std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24);
}

/// The largest difference as a part of the largest number wanted; where that is small, being what is left of larger ones, as
/// a part of 0.1.
template <class E>
double difference(const std::vector<E>& got, const std::vector<E>& wanted) {
  double largest = 0.1;
  for (const E value : wanted) largest = std::max(largest, std::abs(static_cast<double>(value)));
  double worst = got.size() == wanted.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < got.size() && worst != HUGE_VAL; ++i) {
    const double apart = std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i]));
    worst = std::isfinite(apart) ? std::max(worst, apart) : HUGE_VAL;
  }
  return worst / largest;
}

/// Holds operators on Cuda against the host.
template <class T>
class CudaAndHost : public ::testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
  }

  template <class Device>
  static Outcome<T> outcome_on(Device& device, const auto& op, const std::vector<InputCase>& inputs,
                               std::int32_t classes) {
    graph::Graph<Device, T> g(2);
    std::vector<int> refs;
    for (const InputCase& input : inputs) {
      refs.push_back(g.input(input.name,
                             {input.shape, input.integers ? Element::int32 : element_of<T>},
                             !input.integers));
    }
    g.add("op", op, refs);
    GraphRunner<Device, T> runner(device, g);
    return run_once(runner, Point<T>::make(g.dag(), classes), DrawKey{3, 9, 0, 0});
  }

  /// Both devices compute the same value and gradients, and Cuda twice the same bits.
  static void agree(const std::string& what, const auto& op, const std::vector<InputCase>& inputs,
                    double roundings, std::int32_t classes = 1) {
    Host host({.threads = 2});
    Cuda cuda;
    const Outcome<T> wanted = outcome_on(host, op, inputs, classes);
    const Outcome<T> got = outcome_on(cuda, op, inputs, classes);
    ASSERT_EQ(got.size(), wanted.size()) << what;
    for (const auto& [name, values] : got) {
      EXPECT_LE(difference(values, wanted.at(name)), bound<T>(roundings)) << what << ": " << name;
    }
    EXPECT_EQ(outcome_on(cuda, op, inputs, classes), got) << what;
  }
};

}  // namespace reef::test
