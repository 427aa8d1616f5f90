#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include <reef/core/units.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/swap/detail/plan_evaluator.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

/// A choice, and what its step takes, or a bound of that.
struct Candidate {
  run::Choice choice;
  Seconds step = never;
};

inline const Candidate& faster(const Candidate& a, const Candidate& b) {
  return b.step < a.step ? b : a;
}

/// Changes candidates little by little, as long as that is faster.
class LocalSearch {
public:
  /// What may be changed.
  struct Open {
    bool activations = false;
    bool resident = false;
  };

  /// Instructions of programs that are judged to change one candidate: about a second's worth.
  static constexpr std::size_t max_work = 300'000;
  static constexpr int max_stash_slots = 16;

  /// `evaluator` outlives it.
  LocalSearch(PlanEvaluator& evaluator, Open open) : evaluator_(evaluator), open_(open) {}

  /// Changes what some segments keep and how many are resident: the latter first, or last, since
  /// both take memory. Returns the faster of the two.
  Candidate refine(const Candidate& from);

  /// Moves that take memory from one segment and give it to another. Two segments change what they
  /// keep at once; or the number of segments that stay on the device changes by one, and then each
  /// keeps what is fastest.
  Candidate trade_memory(Candidate fastest);

private:
  [[nodiscard]] bool may_work() const { return evaluator_.work() <= max_; }

  static bool is_shorter(const Candidate& changed, const Candidate& than) {
    return changed.step * PlanEvaluator::alike < than.step;
  }

  /// Whether it is faster, and so takes the place of the other.
  bool replaces(Candidate& changed, Candidate& fastest);

  static int segments_of(const run::Choice& choice) {
    return static_cast<int>(choice.cuts.size()) - 1;
  }

  [[nodiscard]] bool may_be_resident(const run::Choice& choice) const;

  /// Something is open, and not all is kept, than which nothing computes or moves less, but where more may stay.
  [[nodiscard]] bool may_mix(const run::Choice& choice) const;

  /// Whether there are two segments that together keep something else that is faster.
  bool change_two(Candidate& fastest);

  /// One segment after another keeps something else, where that is faster.
  void polish(Candidate& fastest);

  /// More of what is stashed is under way at once.
  void let_more_leave(Candidate& fastest);

  /// The first segments live on the device.
  void make_resident(Candidate& fastest);

  /// Some segments, but the last, have other activations.
  void mix(Candidate& fastest);

  /// The best of what `with` makes of a count from 0 to `most`, by ternary search: from there on it takes
  /// longer either way.
  template <class With>
  void improve(Candidate& fastest, int most, const With& with) {
    std::map<int, Seconds> known;  // where it is no faster, perhaps of what does not fit
    const auto time_of = [&](int count) {
      const auto [entry, is_new] = known.try_emplace(count, never);
      if (!is_new || !may_work()) return entry->second;
      Candidate changed{with(count)};
      changed.step = changed.choice == fastest.choice
                         ? fastest.step
                         : evaluator_.step_below(changed.choice, fastest.step);
      entry->second = changed.step;
      if (changed.step < fastest.step) fastest = std::move(changed);
      return entry->second;
    };
    const auto fits = [&](int count) {
      Seconds& step = known.at(count);
      if (step < never) step = evaluator_.step_of(with(count));
      return step < never;
    };
    const auto is_no_slower = [&](int left, int right) {
      const Seconds a = time_of(left);
      const Seconds b = time_of(right);
      return a <= b ? fits(left) || !fits(right) : !fits(right);
    };
    int low = 0;
    int high = most;
    while (high - low > 2) {
      const int left = low + (high - low) / 3;
      const int right = high - (high - low) / 3;
      if (is_no_slower(left, right)) {
        high = right;
      } else {
        low = left;
      }
    }
    for (int count = low; count <= high; ++count) time_of(count);
  }

  PlanEvaluator& evaluator_;
  Open open_;
  std::size_t max_ = 0;  ///< work after which nothing more is looked at
};

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swap/detail/local_search.ipp>
#endif
