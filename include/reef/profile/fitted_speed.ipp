#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/profile/fitted_speed.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

namespace detail {

/// The time per operation of least absolute deviation: the median of seconds / flops, weighted by flops.
inline double median_cost(const std::vector<TimedOperations>& runs) {
  std::vector<std::pair<double, double>> costs;  // and weights
  double all = 0;
  for (const TimedOperations& run : runs) {
    costs.emplace_back(run.seconds / run.flops, run.flops);
    all += run.flops;
  }
  std::sort(costs.begin(), costs.end());
  double sum = 0;
  for (const auto& [cost, weight] : costs) {
    sum += weight;
    if (2 * sum >= all) return cost;
  }
  return costs.back().first;
}

}  // namespace detail

REEF_INLINE FittedSpeed fitted_speed(const std::vector<TimedOperations>& runs) {
  if (runs.empty()) {
    throw OptionError("reef::profile::fitted_speed: there are no runs.\n  fix: one at least.");
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (within(runs[i].flops, 1e-9, 1e30) && within(runs[i].seconds, 1e-12, 1e12)) continue;
    throw OptionError("reef::profile::fitted_speed: run ", i, " has ", runs[i].flops,
                      " operations in ", runs[i].seconds, " s.\n  fix: both above 0.");
  }
  const double cost = detail::median_cost(runs);
  const auto deviation = [&](const TimedOperations& run) {
    return (std::abs)(run.seconds - run.flops * cost);
  };
  std::vector<double> deviations;
  for (const TimedOperations& run : runs) deviations.push_back(deviation(run));
  const auto middle = deviations.begin() + static_cast<std::ptrdiff_t>(deviations.size() / 2);
  std::nth_element(deviations.begin(), middle, deviations.end());
  const double most = 3 * *middle;

  FittedSpeed result;
  double products = 0;
  double squares = 0;
  for (const TimedOperations& run : runs) {
    if (deviation(run) > most) continue;
    products += run.flops * run.seconds;
    squares += run.flops * run.flops;
    ++result.used;
  }
  result.flops_per_second = squares / products;
  double errors = 0;
  double times = 0;
  for (const TimedOperations& run : runs) {
    if (deviation(run) > most) continue;
    const double error = run.seconds - run.flops / result.flops_per_second;
    errors += error * error;
    times += run.seconds * run.seconds;
  }
  result.error = std::sqrt(errors / times);
  return result;
}

}  // namespace profile
}  // namespace v0
}  // namespace reef
