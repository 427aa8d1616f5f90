#pragma once

#include <cstddef>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// The figures of Eq. 2 and 3 for each pair of devices: symmetric matrices, whose diagonals are 0.
///
///     dp(d, d') = 2 (alpha + c_dp / (D_DP beta))
///     pp(d, d') = 2 (alpha + c_pp / beta)
///
/// Where links are judged in their own directions, each is the sum over both directions: an activation
/// goes one way and its gradient the other, as a shard of gradients does and its sum.
struct LinkWeights {
  int size = 0;
  std::vector<Seconds> dp;       ///< (size, size)
  std::vector<Seconds> pp;       ///< (size, size)
  std::vector<Seconds> compute;  ///< (size,)

  LinkWeights() = default;
  explicit LinkWeights(int devices)
      : size(devices), dp(square(devices)), pp(square(devices)), compute(row(devices)) {}

  [[nodiscard]] const Seconds* dp_of(int device) const { return dp.data() + offset(device); }
  [[nodiscard]] const Seconds* pp_of(int device) const { return pp.data() + offset(device); }
  [[nodiscard]] Seconds compute_of(int device) const { return compute.data()[device]; }

  /// The weights of some of the devices, in this order.
  [[nodiscard]] LinkWeights of(const std::vector<int>& devices) const {
    LinkWeights result(static_cast<int>(devices.size()));
    std::size_t cell = 0;
    for (std::size_t a = 0; a < devices.size(); ++a) {
      result.compute[a] = compute_of(devices[a]);
      for (std::size_t b = 0; b < devices.size(); ++b, ++cell) {
        result.dp[cell] = dp_of(devices[a])[devices[b]];
        result.pp[cell] = pp_of(devices[a])[devices[b]];
      }
    }
    return result;
  }

private:
  static std::size_t row(int devices) { return static_cast<std::size_t>(devices); }
  static std::size_t square(int devices) { return row(devices) * row(devices); }
  [[nodiscard]] std::size_t offset(int device) const { return row(device) * row(size); }
};

inline LinkWeights link_weights(const AllocationProblem& problem) {
  const int n = problem.network.devices;
  const profile::Network network = problem.directed ? problem.network : problem.network.averaged();
  LinkWeights weights(n);
  const double shard = problem.gradient_bytes / problem.pipelines;
  std::size_t cell = 0;
  for (int a = 0; a < n; ++a) {
    for (int b = 0; b < n; ++b, ++cell) {
      if (a == b) continue;
      weights.dp[cell] = network.time(a, b, shard) + network.time(b, a, shard);
      weights.pp[cell] = network.time(a, b, problem.activation_bytes) +
                         network.time(b, a, problem.activation_bytes);
    }
    if (problem.stage_flops > 0) {
      weights.compute[static_cast<std::size_t>(a)] =
          problem.stage_flops / problem.speeds[static_cast<std::size_t>(a)];
    }
  }
  return weights;
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
