#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <string>

#include <reef/core/error.hpp>

namespace reef::inline v0::optim {

/// A linear warm-up and a cosine to a floor, counted in optimizer steps that were committed.
///
///     lr(t) = peak (t + 1) / warmup                                          t < warmup
///     lr(t) = floor + (peak - floor) (1 + cos(pi (t - warmup) / (steps - warmup))) / 2
///
/// `steps = 0` keeps the peak after the warm-up. A `schedule` of one's own takes the place of the
/// formulas. Source of the cosine: Loshchilov and Hutter, SGDR,
/// arXiv 1608.03983, equation 5.
struct LearningRate {
  double peak = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t steps = 0;
  double floor = 0;
  std::function<double(std::int64_t committed)> schedule{};

  /// The rate of the step that follows `committed` committed ones.
  [[nodiscard]] double at(std::int64_t committed) const {
    if (schedule) return schedule(committed);
    if (committed < warmup) {
      return peak * static_cast<double>(committed + 1) / static_cast<double>(warmup);
    }
    if (steps <= warmup) return peak;
    const double progress = std::min(
        1.0, static_cast<double>(committed - warmup) / static_cast<double>(steps - warmup));
    return floor + (peak - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  }

  /// Throws OptionError when the numbers make no schedule.
  void validate() const {
    if (!(peak >= 0) || !std::isfinite(peak) || !(floor >= 0) || floor > peak || warmup < 0 ||
        steps < 0) {
      throw OptionError(
          "reef::optim::LearningRate: peak ", peak, ", floor ", floor, ", warmup ", warmup,
          ", steps ", steps,
          ".\n  why: 0 <= floor <= peak and neither count may be negative.\n  fix: set them so.");
    }
  }
};

}  // namespace reef::inline v0::optim
