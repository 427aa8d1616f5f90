#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <string>

#include <reef/core/finite.hpp>
#include <reef/core/product.hpp>
#include <reef/optim/detail/require_option.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// A learning rate schedule: a linear warm-up and a cosine to a floor, counted in committed optimizer steps.
///
///     lr(t) = peak (t + 1) / warmup                                          t < warmup
///     lr(t) = floor + (peak - floor) (1 + cos(pi (t - warmup) / (steps - warmup))) / 2
///
/// `steps = 0` keeps the peak after the warm-up. A `schedule` of one's own takes the place of the formulas; its rate is
/// checked before each step (Trainer::step). Source of the cosine: Loshchilov and Hutter, SGDR, arXiv 1608.03983,
/// equation 5.
///
/// \code
/// const optim::LearningRate rate{.peak = 3e-4, .warmup = 100, .steps = 10'000, .floor = 3e-5};
/// const double first = rate.at(0);  // 3e-6
/// \endcode
struct LearningRate {
  double peak = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t steps = 0;
  double floor = 0;
  std::function<double(std::int64_t committed)> schedule{};

  /// Returns the learning rate of the step that follows `committed` committed steps.
  [[nodiscard]] double at(std::int64_t committed) const {
    if (schedule) return schedule(committed);
    if (committed < warmup) {
      return peak * static_cast<double>(committed + 1) / static_cast<double>(warmup);
    }
    if (steps <= warmup) return peak;
    const double progress = (std::min)(
        1.0, static_cast<double>(committed - warmup) / static_cast<double>(steps - warmup));
    return floor + product((peak - floor) * 0.5, 1.0 + std::cos(std::numbers::pi * progress));
  }

  /// Throws OptionError that names the first impossible number of the schedule.
  void validate() const {
    const auto require_that = [](bool holds, const char* option, auto value, const char* range) {
      detail::require_option(holds, "LearningRate", option, value, range);
    };
    require_that(is_finite(peak) && peak >= 0, "peak", peak, "a finite number of 0 or more");
    require_that(within(floor, 0, peak), "floor", floor, "from 0 to the peak");
    require_that(warmup >= 0, "warmup", warmup, "0 or more steps");
    require_that(steps >= 0, "steps", steps, "0 for a rate that stays, or more");
  }
};

}  // namespace optim
}  // namespace v0
}  // namespace reef
