#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::profile {

/// An operator that was run, and how long that took.
struct TimedOperations {
  double flops = 0;
  Seconds seconds = 0;
};

/// A device's speed, as a short warm-up has shown it.
struct FittedSpeed {
  double flops_per_second = 0;  ///< S*
  int used = 0;                 ///< runs that it is fitted to
  double error =
      0;  ///< their root mean square deviation, as a share of their root mean square time
};

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

/// The speed S* that explains best what operators took: seconds = flops / S*.
///
///     1 / S* = sum flops seconds / sum flops^2,    over runs near the line
///
/// Near is within three times the median deviation from the line of least absolute deviation, so that what a first
/// run or another program took does not count. S* is below what a device can do at best: what operators reach, and
/// what is beside them, is in it.
///
/// Throws OptionError, naming the run, unless there is one, and all operations and times are above 0.
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 3.5 (S* = lambda S). Deviation: robust.
inline FittedSpeed fitted_speed(const std::vector<TimedOperations>& runs) {
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
    return std::abs(run.seconds - run.flops * cost);
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

}  // namespace reef::inline v0::profile
