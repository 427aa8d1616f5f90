#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <reef/plan/detail/bottleneck_sweep.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/ordered_split.hpp>
#include <reef/plan/detail/split_costs.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// A search over orders of devices, each split exactly: random moves, of which those are kept that are worse by less
/// than a threshold, which falls to nothing in a round.
class OrderSearch {
public:
  /// `every`: orders are of all devices, and none is skipped.
  OrderSearch(const SplitCosts& costs, std::uint64_t seed, bool every = false)
      : costs_(costs), draws_(seed, 1), every_(every) {}

  /// Splits that order, and keeps it if it is the best. `reach`: as of OrderedSplit.
  void start(const std::vector<int>& order, std::size_t reach = OrderedSplit::any) {
    Split split = evaluated(order, costs_.time(best_), reach);
    if (!split.stages.empty()) best_ = std::move(split);
  }
  void start(Split split) {
    if (costs_.time(split) < costs_.time(best_)) best_ = std::move(split);
  }

  /// Looks at orders near the best for so many steps. False where `stop` ended it before.
  bool round(std::uint64_t work, const std::function<bool()>& stop) {
    if (best_.stages.empty() || costs_.devices() < 2) return true;
    constexpr double highest = 0.05;  // the threshold, of T
    const std::uint64_t end = steps_ + work;
    const std::uint64_t begin = steps_;
    Split current = best_;
    while (steps_ < end) {
      if (stop()) return false;
      const double left = 1 - static_cast<double>(steps_ - begin) / static_cast<double>(work);
      const double threshold = 1 + highest * left * left;
      const std::vector<int> order = moved(current);
      Split split = evaluated(order, costs_.time(current) * threshold, reach_within(order, work));
      if (split.stages.empty()) continue;
      current = std::move(split);
      if (costs_.time(current) < costs_.time(best_)) best_ = current;
    }
    return true;
  }

  [[nodiscard]] const Split& best() const { return best_; }
  /// Takes back what was found since then.
  void reset(Split best) { best_ = std::move(best); }

private:
  Split evaluated(const std::vector<int>& order, double cutoff,
                  std::size_t reach = OrderedSplit::any) {
    OrderedSplit split(costs_, order, every_ ? 1 : reach);
    Split found = sweep(costs_, split, cutoff).split;
    steps_ += split.steps() + order.size() * static_cast<std::size_t>(costs_.operators());
    return found;
  }

  /// How many places a device may come after the one before, so that an order takes a part of so much work.
  [[nodiscard]] std::size_t reach_within(const std::vector<int>& order, std::uint64_t work) const {
    constexpr std::uint64_t part = 50;  // a sweep has some dozens of least sums
    const std::uint64_t row = order.size() * static_cast<std::uint64_t>(costs_.operators());
    return std::max<std::size_t>(2, work / part / row);
  }

  std::size_t draw(std::size_t below) {
    return static_cast<std::size_t>(draws_.below(static_cast<int>(below)));
  }

  /// The devices of a split, with one move: another device comes in, or takes a place, two change places, one goes
  /// elsewhere, or a part is turned round.
  std::vector<int> moved(const Split& split) {
    std::vector<int> order;
    for (const Stage& stage : split.stages) order.push_back(stage.device);
    const auto devices = static_cast<std::size_t>(costs_.devices());
    std::vector<char> used(devices, 0);
    for (const int device : order) used[static_cast<std::size_t>(device)] = 1;
    std::vector<int> idle;
    for (std::size_t x = 0; x < devices; ++x) {
      if (used[x] == 0) idle.push_back(static_cast<int>(x));
    }
    const auto at = [&](std::size_t place) {
      return order.begin() + static_cast<std::ptrdiff_t>(place);
    };
    const std::size_t n = order.size();
    const auto insert_idle = [&] {
      const int device = idle[draw(idle.size())];
      order.insert(at(draw(n + 1)), device);
    };
    std::size_t kind = draw(5);
    if (idle.empty() && kind < 2) kind += 2;
    if (n < 2 && kind >= 2) kind = idle.empty() ? 5 : draw(2);
    const std::size_t i = draw(n);
    const std::size_t j = draw(n);
    switch (kind) {
      case 0: insert_idle(); break;
      case 1: order[i] = idle[draw(idle.size())]; break;
      case 2: std::swap(order[i], order[j]); break;
      case 3: {
        const int device = order[i];
        order.erase(at(i));
        order.insert(at(draw(n)), device);
        break;
      }
      case 4: std::reverse(at((std::min)(i, j)), at((std::max)(i, j)) + 1); break;
      default: break;
    }
    // One device that idles may be of use beside any of these: it is skipped where it is not.
    if (kind >= 2 && !idle.empty()) insert_idle();
    return order;
  }

  const SplitCosts& costs_;
  Draws draws_;
  bool every_;
  std::uint64_t steps_ = 0;
  Split best_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
