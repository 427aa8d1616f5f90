#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

/// A measured run of an operator: its number of floating-point operations, and its time.
struct TimedOperations {
  double flops = 0;
  Seconds seconds = 0;
};

/// A device's speed, fitted to the times of a short warm-up.
struct FittedSpeed {
  double flops_per_second = 0;  ///< fitted speed S* in floating-point operations per second
  int used = 0;                 ///< the number of runs to which the speed is fitted
  double error =
      0;  ///< root mean square deviation of the runs' times, as a fraction of their root mean square
};

/// Fits the speed S* to measured times of operators: seconds = flops / S*.
///
///     1 / S* = sum flops seconds / sum flops^2,    over runs near the line
///
/// A run is near if it is within three times the median deviation from the line of least absolute
/// deviation, so that outliers, such as a first run or a run beside another program, do not count.
/// S* is below a device's peak: it includes the efficiency of operators, and their overhead.
///
/// Throws OptionError, naming the run, unless there is at least one run, and all operations and times are above 0.
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 3.5 (S* = lambda S). Deviation: robust.
///
/// \code
/// const std::vector<profile::TimedOperations> runs{{2e9, 0.011}, {4e9, 0.021}, {8e9, 0.041}};
/// const double flops_per_second = profile::fitted_speed(runs).flops_per_second;
/// \endcode
FittedSpeed fitted_speed(const std::vector<TimedOperations>& runs);

}  // namespace profile
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/profile/fitted_speed.ipp>
#endif
