#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The speed of a server's blocks: the seconds of one row and of one row of a full pass, at one block, as medians of
/// what passes have taken. Any thread.
///
///     m <- m * (1 + e) if a pass took longer than m, m / (1 + e) if not, e = 0.05
///
/// Source: Ma, Muthukrishnan and Sandler, Frugal Streaming for Estimating Quantiles, arXiv 1407.1121; steps are
/// factors here. A pass that the machine has interrupted moves a median no further than another.
class ServerPace {
public:
  /// `rows`: of a full pass.
  explicit ServerPace(std::int64_t rows) : full_(rows) {}

  /// Sets the speed, as it was measured before anybody was served.
  void set(Seconds row, Seconds row_of_many) {
    const std::lock_guard lock(mutex_);
    row_ = (std::max)(row, least);
    row_of_many_ = (std::max)((std::min)(row_of_many, row), least);
  }
  /// Notes a pass of `rows` rows. `work`: the sum of the blocks that each of them goes through.
  void passed(std::int64_t rows, std::int64_t work, Seconds seconds) {
    const std::lock_guard lock(mutex_);
    if (!row_ || rows < 1 || work < 1) return;
    const Seconds each = seconds / static_cast<double>(work);
    if (rows == 1) step(*row_, each);
    if (rows > 1 && 2 * rows >= full_) step(row_of_many_, each);
  }

  /// Returns the rows a second through one block, one after the other; nothing before it is set.
  [[nodiscard]] std::optional<double> rate() const {
    const std::lock_guard lock(mutex_);
    return row_ ? std::optional(1 / *row_) : std::nullopt;
  }
  /// Returns how many rows of a full pass take the time of one row alone, 1 or more.
  [[nodiscard]] double batch() const {
    const std::lock_guard lock(mutex_);
    return row_ ? (std::max)(*row_ / row_of_many_, 1.0) : 1;
  }

private:
  static constexpr Seconds least = 1e-9;

  static void step(Seconds& median, Seconds taken) {
    constexpr double factor = 1.05;
    median = (std::max)(taken > median ? median * factor : median / factor, least);
  }

  std::int64_t full_;
  mutable std::mutex mutex_;
  std::optional<Seconds> row_{};
  Seconds row_of_many_ = 0;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
