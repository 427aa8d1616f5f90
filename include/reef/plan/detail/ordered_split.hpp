#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/plan/detail/split_costs.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// The least sum of a split over devices in a given order, for limits on the bottleneck: O(devices reach operators).
///
///     sum(x, b) = min over y before x, a < b of  sum(y, a) + R(y, x, a) + C(x, a, b)
class OrderedSplit {
public:
  static constexpr std::size_t any = ~std::size_t{0};

  /// `reach`: a device comes so many places after the one before at most, so that those between are left out: 1, none
  /// may be; any, any number. Before the first and after the last any number may be, but for a reach of 1.
  /// `earliest`: StageBegins, or none.
  OrderedSplit(const SplitCosts& costs, std::vector<int> order, std::size_t reach,
               std::vector<std::vector<int>> earliest = {})
      : costs_(costs), order_(std::move(order)), reach_(reach), earliest_(std::move(earliest)) {
    const std::size_t cells = order_.size() * width();
    arrive_.resize(cells);
    arrive_from_.resize(cells);
    sum_.resize(cells);
    sum_from_.resize(cells);
  }

  [[nodiscard]] bool exhausted() const { return false; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  [[nodiscard]] Split least_sum(double limit, double cutoff) {
    for (std::size_t x = 0; x < order_.size(); ++x) {
      find_arrivals(x, limit);
      find_sums(x, limit, cutoff);
    }
    std::size_t last = order_.size();
    double least = cutoff;
    const auto end = width() - 1;
    for (std::size_t x = skips() ? 0 : order_.size() - 1; x < order_.size(); ++x) {
      if (sum_[cell(x, end)] >= least) continue;
      least = sum_[cell(x, end)];
      last = x;
    }
    if (last == order_.size()) return {};
    std::vector<Stage> stages;
    for (std::size_t b = end; b > 0;) {
      const auto a = static_cast<std::size_t>(sum_from_[cell(last, b)]);
      stages.push_back({order_[last], static_cast<int>(a), static_cast<int>(b)});
      if (a > 0) last = static_cast<std::size_t>(arrive_from_[cell(last, a)]);
      b = a;
    }
    std::reverse(stages.begin(), stages.end());
    return costs_.split_of(std::move(stages));
  }

private:
  [[nodiscard]] std::size_t width() const {
    return static_cast<std::size_t>(costs_.operators()) + 1;
  }
  [[nodiscard]] bool skips() const { return reach_ > 1; }
  [[nodiscard]] std::size_t cell(std::size_t x, std::size_t b) const { return x * width() + b; }

  /// The least with all before `a` done, and what crosses there on device x.
  void find_arrivals(std::size_t x, double limit) {
    double* const arrive = &arrive_[cell(x, 0)];
    int* const from = &arrive_from_[cell(x, 0)];
    std::fill_n(arrive, width(), no_time);
    if (x == 0 || skips()) arrive[0] = 0;
    for (std::size_t y = x > reach_ ? x - reach_ : 0; y < x; ++y) {
      const double* const sums = &sum_[cell(y, 0)];
      steps_ += width();
      for (std::size_t a = 1; a + 1 < width(); ++a) {
        if (sums[a] == no_time) continue;
        const Seconds receives = costs_.receive(order_[y], order_[x], static_cast<int>(a));
        if (receives > limit || sums[a] + receives >= arrive[a]) continue;
        arrive[a] = sums[a] + receives;
        from[a] = static_cast<int>(y);
      }
    }
  }

  void find_sums(std::size_t x, double limit, double cutoff) {
    costs_.longest(order_[x], limit, firsts_);
    int least = 0;  // does not fall, as WindowMinimum wants it
    for (std::size_t b = 0; b < firsts_.size() && !earliest_.empty(); ++b) {
      least = (std::max)(least, earliest_[x][b]);
      firsts_[b] = (std::max)(firsts_[b], least);
    }
    double* const sums = &sum_[cell(x, 0)];
    const double* const arrive = &arrive_[cell(x, 0)];
    window_.clear(width());
    sums[0] = no_time;
    for (int b = 1; b < static_cast<int>(width()); ++b) {
      const auto a = static_cast<std::size_t>(b - 1);
      if (arrive[a] < cutoff) window_.push(b - 1, arrive[a] - costs_.before(order_[x], b - 1));
      window_.leave_before(firsts_[static_cast<std::size_t>(b)]);
      const auto at = static_cast<std::size_t>(b);
      sums[at] = no_time;
      if (window_.empty()) continue;
      const int first = window_.place();
      const double sum =
          arrive[static_cast<std::size_t>(first)] + costs_.compute(order_[x], first, b);
      if (sum >= cutoff) continue;
      sums[at] = sum;
      sum_from_[cell(x, at)] = first;
    }
    steps_ += width();
  }

  const SplitCosts& costs_;
  std::vector<int> order_;
  std::size_t reach_;
  std::vector<std::vector<int>> earliest_;
  std::uint64_t steps_ = 0;
  std::vector<double> arrive_, sum_;  // (devices, operators + 1)
  std::vector<int> arrive_from_, sum_from_;
  std::vector<int> firsts_;
  WindowMinimum window_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
