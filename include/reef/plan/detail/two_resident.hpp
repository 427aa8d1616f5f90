#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/plan/chain.hpp>
#include <reef/plan/detail/pair_rules.hpp>
#include <reef/plan/detail/range_min.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// The best partition of which every rule is about one or two neighbours.
///
///     D(b, d) = min over allowed a of D(a, b) + (cut[d], time(a, b, d))
///
/// D(b, d) is the least cost of a partition of [0, d) that ends with [b, d): given the last sub-model,
/// what follows does not depend on those before it. With stashes, too: they are the first part of D, and
/// fewer are both cheaper and allowed more often.
///
/// For given b and d the allowed a are one range, since all that is asked of [a, b) is monotone in a; so
/// are those for which either half of the time is a load. As d grows, the ends of the ranges move one
/// way. What is smallest in a range comes from tables: O(n^2 log n). With stashes the range is looked
/// through, since each a leaves another memory: O(n^3) where the ranges are long.
class TwoResident {
public:
  explicit TwoResident(const PairRules& rules) : rules_(rules), sums_(rules.sums()) {}

  /// The bounds of the sub-models, first 0, last n; empty if none is allowed.
  std::vector<int> run() {
    search();
    Found end;
    for (int a = 1; a < sums_.size(); ++a) {
      end.take({best(a, sums_.size()).cost + cost(0, sums_.forward(a, sums_.size())), a});
    }
    return bounds(end);
  }

  /// Whether any is allowed: O(n^2) where there are no stashes.
  bool exists() {
    only_exists_ = true;
    search();
    const auto& whole = best_.back();
    return std::any_of(whole.begin() + 1, whole.end(),
                       [](const Found& found) { return found.cost.exists(); });
  }

private:
  /// How long a forward of A, and how long a load of A takes, as costs beside D(a, b).
  enum Kind : std::size_t { neither, forward, load, both, kinds };

  void search() {
    const int n = sums_.size();
    best_.resize(static_cast<std::size_t>(n) + 1);
    for (int d = 1; d <= n; ++d) {
      best_[static_cast<std::size_t>(d)].resize(static_cast<std::size_t>(d));
    }
    for (int d = 1; d < n; ++d) {
      // In its backward the gradients of what crosses its end are there, where that was.
      const Cost begin = cost(rules_.cut(d), sums_.backward(0, d));
      if (rules_.first(d) + rules_.stash(begin.first) <= rules_.memory()) best(0, d) = {begin, -1};
    }
    for (int b = 1; b < n; ++b) {
      const auto& here = best_[static_cast<std::size_t>(b)];
      if (std::none_of(here.begin(), here.end(), [](const Found& f) { return f.cost.exists(); })) {
        continue;
      }
      extend_by_ranges(b);
      if (turns()) extend_at_turns(b);
    }
  }

  [[nodiscard]] Cost cost(std::int64_t bytes, Ticks time) const {
    return rules_.hides_loads() ? Cost{bytes, time} : Cost{time, bytes};
  }
  Found& best(int b, int d) {
    return best_[static_cast<std::size_t>(d)][static_cast<std::size_t>(b)];
  }

  void take(int b, int d, Found found) {
    if (!found.cost.exists()) return;
    if (d == sums_.size() && rules_.last(b) + rules_.stash(found.cost.first) > rules_.memory())
      return;
    found.cost = found.cost + cost(rules_.cut(d), 0);
    best(b, d).take(found);
  }

  /// The turns have rules of their own.
  [[nodiscard]] bool turns() const { return rules_.variant() == Variant::turn; }

  void extend_at_turns(int b) {
    const int n = sums_.size();
    for (int d = b + 1; d <= n; ++d) extend_one_by_one(b, d, 0, d == n ? b - 1 : 0);
  }

  void extend_one_by_one(int b, int d, int from, int to) {
    for (int a = from; a <= to; ++a) {
      const Cost so_far = best(a, b).cost;
      if (!so_far.exists() || !rules_.allowed(a, b, d, rules_.stash(so_far.first))) continue;
      take(b, d, {so_far + cost(0, rules_.time(a, b, d)), a});
    }
  }

  void extend_by_ranges(int b) {
    if (!rules_.stashes()) fill_tables(b);
    const int least = turns() ? 1 : 0;
    const int end = turns() ? sums_.size() - 1 : sums_.size();
    int fits = least;      // the first a with which the memory is enough
    int hides = b - 1;     // the last a whose forward hides the load of B
    int hidden = b;        // the first a whose load the backward of B hides
    int forwards = b - 1;  // the last a whose forward takes at least as long as the load of B
    int loads = b - 1;     // the last a whose load takes at least as long as the backward of B
    for (int d = b + 1; d <= end; ++d) {
      const Ticks load_b = sums_.load(b, d);
      const Ticks run_b = sums_.backward(b, d);
      const Ticks backward_b = run_b + sums_.leave_backward(b, d);
      while (fits < b && rules_.pair(fits, b, d) > rules_.memory()) ++fits;
      if (rules_.hides_loads()) {
        while (hides >= least && sums_.forward(hides, b) < load_b) --hides;
      }
      if (fits == b || hides < least) break;  // and so it is for larger d
      if (rules_.hides_backward_loads()) {
        while (hidden > least && run_b >= sums_.load(hidden - 1, b)) --hidden;
      } else {
        hidden = least;
      }
      const int first = (std::max)(fits, hidden);
      if (rules_.stashes()) {
        extend_one_by_one(b, d, first, hides);
        continue;
      }
      while (forwards >= 0 && forward_of(forwards, b) < load_b) --forwards;
      while (loads >= 0 && sums_.load(loads, b) < backward_b) --loads;
      if (only_exists_) {
        const int there = first > hides ? 0
                                        : reachable_[static_cast<std::size_t>(hides) + 1] -
                                              reachable_[static_cast<std::size_t>(first)];
        if (there > 0) take(b, d, {Cost{0, 0}, first});
        continue;
      }
      const auto [less, more] = std::minmax(forwards, loads);
      Found found;
      const auto look = [&](Kind kind, int from, int to, Ticks time) {
        Found here = tables_[kind].of((std::max)(from, first), (std::min)(to, hides));
        here.cost = here.cost + cost(0, time);
        found.take(here);
      };
      look(both, 0, less, 0);
      if (forwards > loads) {
        look(forward, less + 1, more, backward_b);
      } else {
        look(load, less + 1, more, load_b);
      }
      look(neither, more + 1, b - 1, load_b + backward_b);
      take(b, d, found);
    }
  }

  [[nodiscard]] Ticks forward_of(int a, int b) const {
    return sums_.forward(a, b) + sums_.leave_forward(a, b);
  }

  void fill_tables(int b) {
    if (only_exists_) {
      reachable_.assign(1, 0);
      for (int a = 0; a < b; ++a) {
        reachable_.push_back(reachable_.back() + (best(a, b).cost.exists() ? 1 : 0));
      }
      return;
    }
    costs_.resize(static_cast<std::size_t>(b));
    const auto fill = [&](Kind kind, auto&& time) {
      for (int a = 0; a < b; ++a) {
        costs_[static_cast<std::size_t>(a)] = best(a, b).cost + cost(0, time(a));
      }
      tables_[kind].assign(costs_);
    };
    fill(neither, [](int) { return Ticks{0}; });
    fill(forward, [&](int a) { return forward_of(a, b); });
    fill(load, [&](int a) { return sums_.load(a, b); });
    fill(both, [&](int a) { return forward_of(a, b) + sums_.load(a, b); });
  }

  [[nodiscard]] std::vector<int> bounds(const Found& end) {
    if (!end.cost.exists()) return {};
    std::vector<int> result{sums_.size()};
    for (int a = end.at, d = sums_.size(); a >= 0;) {
      result.push_back(a);
      const int before = best(a, d).at;
      d = a;
      a = before;
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

  const PairRules& rules_;
  const ChainSums& sums_;
  std::vector<std::vector<Found>>
      best_;  ///< by end and begin of the last sub-model; where that before begins
  std::array<RangeMin, kinds> tables_;
  std::vector<Cost> costs_;
  bool only_exists_ = false;
  std::vector<int> reachable_;  ///< how many of the places before have a cost
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
