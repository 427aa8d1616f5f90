#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <reef/plan/detail/split_costs.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// The least sum of a split over devices in any order, for limits on the bottleneck, where only some devices are
/// `counted`: those are used once at most, the others may come again. So it is a lower bound, and where no device
/// comes twice the answer. Devices that are alike are used in the order of their numbers.
///
///     sum(used, x, b) = min over y, a < b of  sum(used without x, y, a) + R(y, x, a) + C(x, a, b)
///
/// States that cannot be completed below the cutoff, by what is left if no device is counted, are dropped.
/// O(2^counted devices^2 operators) at most.
class FreeSplit {
public:
  static constexpr int max_counted = 20;

  explicit FreeSplit(const SplitCosts& costs)
      : costs_(costs),
        devices_(static_cast<std::size_t>(costs.devices())),
        width_(static_cast<std::size_t>(costs.operators()) + 1),
        bit_(devices_, 0),
        alike_before_(devices_, -1) {
    find_alike();
  }

  void count(int device) {
    bit_[static_cast<std::size_t>(device)] = std::uint32_t{1} << counted_++;
  }
  [[nodiscard]] bool counts(int device) const {
    return bit_[static_cast<std::size_t>(device)] != 0;
  }
  [[nodiscard]] int counted() const { return counted_; }
  [[nodiscard]] bool exhausted() const { return exhausted_; }
  /// So many steps more before it is exhausted, or fewer if `stop` says so, which is asked now and then.
  void allow(std::uint64_t work, std::function<bool()> stop = {}) {
    work_ = steps_ + work;
    stop_ = std::move(stop);
    next_look_ = steps_ + steps_between_looks;
    exhausted_ = false;
  }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  [[nodiscard]] Split least_sum(double limit, double cutoff) {
    limit_ = limit;
    firsts_.resize(devices_);
    for (std::size_t x = 0; x < devices_; ++x)
      costs_.longest(static_cast<int>(x), limit, firsts_[x]);
    find_completions();
    if (exhausted_) return {};
    arrivals_.clear();
    rows_ = 0;
    arrivals_.resize(std::size_t{1} << counted_);
    add_steps(arrivals_.size() / 4);
    arrivals_[0] = make_row();
    for (std::size_t x = 0; x < devices_; ++x) arrivals_[0][x * width_] = 0;
    best_ = {};
    best_.sum = cutoff;
    for (std::uint32_t used = 0; used < arrivals_.size() && !exhausted_; ++used) extend(used);
    if (exhausted_ || best_.device < 0) return {};
    return costs_.split_of(stages_of(best_));
  }

private:
  using Row = std::unique_ptr<double[]>;                           // (devices, operators + 1)
  static constexpr std::uint64_t steps_between_looks = 1'000'000;  // some milliseconds

  struct State {
    std::uint32_t used = 0;
    int device = -1;
    int end = 0;
    double sum = no_time;
  };

  [[nodiscard]] Row make_row() {
    Row row(new double[devices_ * width_]);
    std::fill_n(row.get(), devices_ * width_, no_time);
    add_steps(devices_ * width_);
    constexpr std::size_t max_cells = std::size_t{1} << 25;
    if (++rows_ * devices_ * width_ > max_cells) exhausted_ = true;
    return row;
  }

  void add_steps(std::size_t steps) {
    steps_ += steps;
    if (steps_ > work_) exhausted_ = true;
    if (steps_ < next_look_) return;
    next_look_ = steps_ + steps_between_looks;
    if (stop_ && stop_()) exhausted_ = true;
  }

  /// Devices whose exchange changes nothing: of those the one with the next lower number.
  void find_alike() {
    const PipelineProblem& problem = costs_.problem();
    const auto equal = [&](std::size_t a, std::size_t b) {
      return problem.speed[a] == problem.speed[b] && problem.capacity[a] == problem.capacity[b];
    };
    const auto link = [&](std::size_t a, std::size_t b) {
      const int from = static_cast<int>(a);
      const int to = static_cast<int>(b);
      return std::pair(problem.links.latency(from, to), problem.links.rate(from, to));
    };
    for (std::size_t x = 0; x < devices_; ++x) {
      for (std::size_t y = x; y-- > 0;) {
        bool alike = equal(x, y) && link(x, y) == link(y, x);
        for (std::size_t z = 0; z < devices_ && alike; ++z) {
          if (z != x && z != y) alike = link(x, z) == link(y, z) && link(z, x) == link(z, y);
        }
        if (!alike) continue;
        alike_before_[x] = static_cast<int>(y);
        break;
      }
    }
  }

  /// Whether the device may come next.
  [[nodiscard]] bool may_follow(std::uint32_t used, std::size_t x) const {
    if ((used & bit_[x]) != 0) return false;
    const int before = alike_before_[x];
    if (before < 0 || bit_[x] == 0) return true;
    const std::uint32_t other = bit_[static_cast<std::size_t>(before)];
    return other == 0 || (used & other) != 0;
  }

  /// By device and boundary: what at least is still to come when it has done all before that.
  void find_completions() {
    const std::size_t end = width_ - 1;
    rest_.assign(devices_ * width_, no_time);
    start_.assign(devices_ * width_, no_time);  // with what crosses there already received
    for (std::size_t x = 0; x < devices_; ++x) rest_[x * width_ + end] = 0;
    windows_.resize(devices_);
    lasts_.assign(devices_, static_cast<int>(end));
    for (WindowMinimum& window : windows_) window.clear(width_);
    for (std::size_t a = end; a-- > 0 && !exhausted_;) {
      add_steps(devices_ * devices_);
      for (std::size_t x = 0; x < devices_; ++x) {
        const int device = static_cast<int>(x);
        const double after = rest_[x * width_ + a + 1];
        // Places are counted from the end, since the window moves to the front.
        if (after < no_time)
          windows_[x].push(-static_cast<int>(a + 1),
                           after + costs_.before(device, static_cast<int>(a + 1)));
        while (firsts_[x][static_cast<std::size_t>(lasts_[x])] > static_cast<int>(a)) --lasts_[x];
        windows_[x].leave_before(-lasts_[x]);
        if (windows_[x].empty()) continue;
        const int last = -windows_[x].place();
        start_[x * width_ + a] = costs_.compute(device, static_cast<int>(a), last) +
                                 rest_[x * width_ + static_cast<std::size_t>(last)];
      }
      if (a == 0) break;
      for (std::size_t y = 0; y < devices_; ++y) {
        double least = no_time;
        for (std::size_t x = 0; x < devices_; ++x) {
          const double to_come = start_[x * width_ + a];
          if (x == y || to_come >= least) continue;
          const Seconds receives =
              costs_.receive(static_cast<int>(y), static_cast<int>(x), static_cast<int>(a));
          if (receives <= limit_) least = (std::min)(least, receives + to_come);
        }
        rest_[y * width_ + a] = least;
      }
    }
  }

  [[nodiscard]] const double* arrivals(std::uint32_t used, std::size_t x) const {
    const Row& row = arrivals_[used];
    return row ? &row[x * width_] : nullptr;
  }

  /// The least sum of stages [a, end) on x after arriving at a; `first` is its a.
  [[nodiscard]] double sum_of(const double* arrive, std::size_t x, int end, int& first) const {
    double least = no_time;
    for (int a = firsts_[x][static_cast<std::size_t>(end)]; a < end; ++a) {
      const double at = arrive[a];
      if (at == no_time) continue;
      const double sum = at + costs_.compute(static_cast<int>(x), a, end);
      if (sum >= least) continue;
      least = sum;
      first = a;
    }
    return least;
  }

  /// All states of devices used, boundary by boundary, and where they arrive next.
  void extend(std::uint32_t used) {
    add_steps(devices_);
    ends_.clear();
    bool reached = used == 0;
    for (std::size_t x = 0; x < devices_; ++x) {
      if (bit_[x] != 0 && (used & bit_[x]) == 0) continue;
      if (bit_[x] != 0 && !arrivals_[used & ~bit_[x]]) continue;
      ends_.push_back(x);
      reached = reached || bit_[x] != 0;
    }
    if (!reached) return;
    windows_.resize(devices_);
    for (const std::size_t x : ends_) windows_[x].clear(width_);
    sums_.resize(ends_.size());
    for (int b = 1; b < static_cast<int>(width_) && !exhausted_; ++b) {
      bool any = false;
      for (std::size_t i = 0; i < ends_.size(); ++i) {
        const std::size_t x = ends_[i];
        const double* const arrived = arrivals(used & ~bit_[x], x);
        const double at = arrived == nullptr ? no_time : arrived[b - 1];
        if (at < no_time) windows_[x].push(b - 1, at - costs_.before(static_cast<int>(x), b - 1));
        windows_[x].leave_before(firsts_[x][static_cast<std::size_t>(b)]);
        sums_[i] = no_time;
        if (windows_[x].empty()) continue;
        const int a = windows_[x].place();
        const double sum = arrived[a] + costs_.compute(static_cast<int>(x), a, b);
        const double rest = rest_[x * width_ + static_cast<std::size_t>(b)];
        if (rest == no_time || sum + rest >= best_.sum) continue;
        sums_[i] = sum;
        any = true;
        if (b + 1 == static_cast<int>(width_)) best_ = {used, static_cast<int>(x), b, sum};
      }
      add_steps(ends_.size());
      if (any && b + 1 < static_cast<int>(width_)) arrive(used, b);
    }
  }

  /// Where the states of one boundary go on.
  void arrive(std::uint32_t used, int b) {
    const auto at = static_cast<std::size_t>(b);
    for (std::size_t x = 0; x < devices_; ++x) {
      const double to_come = start_[x * width_ + at];
      if (to_come == no_time || !may_follow(used, x)) continue;
      double least = best_.sum - to_come;
      bool found = false;
      for (std::size_t i = 0; i < ends_.size(); ++i) {
        if (ends_[i] == x || sums_[i] >= least) continue;
        const Seconds receives = costs_.receive(static_cast<int>(ends_[i]), static_cast<int>(x), b);
        if (receives > limit_ || sums_[i] + receives >= least) continue;
        least = sums_[i] + receives;
        found = true;
      }
      add_steps(ends_.size());
      if (!found) continue;
      if (!arrivals_[used]) arrivals_[used] = make_row();
      arrivals_[used][x * width_ + at] = least;
    }
  }

  /// Back through the states, by what gives the least.
  [[nodiscard]] std::vector<Stage> stages_of(State state) const {
    std::vector<Stage> stages;
    for (;;) {
      const auto x = static_cast<std::size_t>(state.device);
      const std::uint32_t before = state.used & ~bit_[x];
      int first = 0;
      static_cast<void>(sum_of(arrivals(before, x), x, state.end, first));
      stages.push_back({state.device, first, state.end});
      if (first == 0) break;
      State from{before, -1, first, no_time};
      double least = no_time;
      for (std::size_t y = 0; y < devices_; ++y) {
        if (y == x || (bit_[y] != 0 && (before & bit_[y]) == 0)) continue;
        const double* const arrive = arrivals(before & ~bit_[y], y);
        if (arrive == nullptr) continue;
        int unused = 0;
        const double sum = sum_of(arrive, y, first, unused);
        const Seconds receives = costs_.receive(static_cast<int>(y), state.device, first);
        if (sum == no_time || receives > limit_ || sum + receives >= least) continue;
        least = sum + receives;
        from.device = static_cast<int>(y);
      }
      state = from;
    }
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  const SplitCosts& costs_;
  std::size_t devices_;
  std::size_t width_;
  int counted_ = 0;
  std::vector<std::uint32_t> bit_;  // 0: not counted
  std::vector<int> alike_before_;
  std::uint64_t work_ = 0;
  std::uint64_t steps_ = 0;
  std::function<bool()> stop_;
  std::uint64_t next_look_ = 0;
  bool exhausted_ = false;
  std::size_t rows_ = 0;
  double limit_ = no_time;
  std::vector<std::vector<int>> firsts_;
  std::vector<int> lasts_;
  std::vector<double> rest_, start_;  // (devices, operators + 1)
  std::vector<Row> arrivals_;         // by what is used; none: no state
  std::vector<std::size_t> ends_;
  std::vector<double> sums_;
  std::vector<WindowMinimum> windows_;
  State best_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
