#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/plan/chain.hpp>
#include <reef/plan/detail/pair_rules.hpp>
#include <reef/plan/detail/range_min.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// An exact search that would take more memory than there is for it.
class TooManyStates : public OptionError {
public:
  using OptionError::OptionError;
};

/// The best partition of which rules are about three neighbours.
///
///     E(a, b, d) = min over allowed z of E(z, a, b) + (cut[d], time(a, b, d))
///
/// E(a, b, d) is the least cost of a partition of [0, d) that ends with [a, b), [b, d). Of the z before
/// [a, b) only those matter that cost less than every shorter [z, a): such a one needs less memory in
/// whatever follows, and leaves no more stashes. And of those no shorter one than the first that fits
/// beside whatever may follow. Exact, therefore; O(n^3) times how many are left.
///
/// Throws TooManyStates where more than `max_states` are left in all, each of 24 bytes: of memory that is neither
/// scarce nor ample. No chain of 493 operators leaves more than twenty million.
class ThreeResident {
public:
  explicit ThreeResident(const PairRules& rules, std::size_t max_states = 20'000'000)
      : rules_(rules), sums_(rules.sums()), max_states_(max_states) {}

  /// The bounds of the sub-models, first 0, last n; empty if none is allowed.
  std::vector<int> run() {
    const int n = sums_.size();
    states_.resize(static_cast<std::size_t>(n) + 1);
    for (int d = 1; d <= n; ++d) {
      states_[static_cast<std::size_t>(d)].resize(static_cast<std::size_t>(d));
      const Cost begin{rules_.cut(d), sums_.backward(0, d)};
      if (d < n && rules_.first(d) + rules_.stash(begin.first) <= rules_.memory()) {
        states(0, d).push_back({-1, -1, begin});
      }
    }
    for (int b = 1; b < n; ++b) {
      for (int d = b + 1; d <= n; ++d) extend(b, d);
    }
    Cost least;
    int last = -1;
    for (int a = 1; a < n; ++a) {
      if (states(a, n).empty()) continue;
      const Cost cost = states(a, n).back().cost + Cost{0, sums_.forward(a, n)};
      if (cost < least) {
        least = cost;
        last = a;
      }
    }
    return bounds(last);
  }

private:
  struct State {
    int before;  ///< where the sub-model before the last begins; -1: there is none
    int former;  ///< and the one before that
    Cost cost;
  };

  /// Of partitions that end with [b, d): the one before it from short to long, each cheaper than the last.
  std::vector<State>& states(int b, int d) {
    return states_[static_cast<std::size_t>(d)][static_cast<std::size_t>(b)];
  }

  void extend(int b, int d) {
    std::vector<State>& result = states(b, d);
    for (int a = b - 1; a >= 0; --a) {
      const std::vector<State>& former = states(a, b);
      if (former.empty()) continue;
      if (!rules_.allowed(a, b, d, 0)) continue;
      // The cheapest first.
      const auto found = std::find_if(former.rbegin(), former.rend(),
                                      [&](const State& state) { return fits(state, a, b, d); });
      if (found == former.rend()) continue;
      const Cost cost = found->cost + Cost{rules_.cut(d), rules_.time(a, b, d)};
      if (!result.empty() && !(cost < result.back().cost)) continue;
      const bool always_fits =
          rules_.triple(a, b, d, sums_.size()) + rules_.stash(cost.first) <= rules_.memory();
      if (always_fits) {
        count_ -= result.size();
        std::vector<State>().swap(result);  // with its memory
      }
      result.push_back({a, found->before, cost});
      if (++count_ > max_states_) refuse();
    }
  }

  [[noreturn]] void refuse() const {
    throw TooManyStates(
        "reef::plan::partition_chain: ", sums_.size(), " operators leave more than ", max_states_,
        " ways to go on with three resident sub-models.\n",
        "  why: each takes memory until the end.\n"
        "  fix: join operators between which there is never a cut, or the variant 'full'.");
  }

  [[nodiscard]] bool fits(const State& state, int a, int b, int d) const {
    const std::int64_t room = rules_.memory() - rules_.stash(state.cost.first);
    if (rules_.pair(a, b, d) > room) return false;
    if (d == sums_.size() && rules_.last(b) > room) return false;
    return state.before < 0 || rules_.triple(state.before, a, b, d) <= room;
  }

  [[nodiscard]] std::vector<int> bounds(int last) {
    if (last < 0) return {};
    std::vector<int> result{sums_.size(), last};
    int d = sums_.size();
    int b = last;
    const State* state = &states(b, d).back();
    while (state->before >= 0) {
      const int a = state->before;
      const int former = state->former;
      result.push_back(a);
      d = b;
      b = a;
      const std::vector<State>& here = states(b, d);
      state = &*std::find_if(here.begin(), here.end(),
                             [&](const State& s) { return s.before == former; });
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

  const PairRules& rules_;
  const ChainSums& sums_;
  std::size_t max_states_;
  std::size_t count_ = 0;                                ///< of all states
  std::vector<std::vector<std::vector<State>>> states_;  ///< by end and begin of the last sub-model
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
