#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

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
