#pragma once

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>
#include <vector>

#include <reef/plan/detail/split_costs.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// What a sweep found.
struct Swept {
  Split split{};         ///< the least T below the cutoff, or none
  bool complete = true;  ///< false: it ran out of work, and nothing is proven
};

/// The least of sum + (n_b - 1) bottleneck, by the least sums whose bottleneck is within limits.
///
/// The least sum does not grow with the limit. So of limits in (low, high] none is better than
/// sum(high) + (n_b - 1) low: intervals are halved, or cut off just below the bottleneck that was found, lowest
/// bound first, until no bound is below the best. Exact; some dozens of least sums.
///
/// `search.least_sum(limit, cutoff)` is the split of least sum with every stage within the limit, or none where that
/// sum is not below the cutoff; `search.exhausted()`, whether it ran out of work and what it says is void.
template <class Search>
Swept sweep(const SplitCosts& costs, Search& search, double cutoff = no_time) {
  constexpr double nearly = 1 - 1e-12;  // what is less apart is rounding
  struct Interval {
    double bound;
    double low;
    double high;  // a limit at which `sum` is the least, and the bottleneck itself
    double sum;
    bool halve;  // it was cut off just below its end last
    bool operator<(const Interval& other) const { return bound > other.bound; }
  };
  const double more = costs.more_micro_batches();
  Swept result;
  std::priority_queue<Interval> open;
  // What is best with bottlenecks in (low, limit].
  const auto look = [&](double low, double limit, bool halve) {
    Split found = search.least_sum(limit, cutoff * nearly - more * low);
    if (found.stages.empty()) return;
    const double time = costs.time(found);
    open.push({found.sum + more * low, low, found.bottleneck, found.sum, halve});
    if (time < cutoff * nearly) {
      cutoff = time;
      result.split = std::move(found);
    }
  };
  const double least = costs.least_bottleneck();
  double highest = no_time;
  if (more > 0 && cutoff < no_time) highest = (cutoff - costs.least_sum()) / more;
  look(least, highest, false);
  while (!open.empty() && !search.exhausted()) {
    const Interval at = open.top();
    open.pop();
    if (at.bound >= cutoff * nearly) break;
    if (!at.halve) {
      const double below = std::nextafter(at.high, 0.0);
      if (below > at.low) look(at.low, below, true);
      continue;
    }
    const double middle = at.low + (at.high - at.low) / 2;
    if (!(middle > at.low && middle < at.high)) continue;
    look(at.low, middle, false);
    open.push({at.sum + more * middle, middle, at.high, at.sum, true});
  }
  result.complete = !search.exhausted();
  return result;
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
