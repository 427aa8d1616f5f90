#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/swap/detail/plan_evaluator.hpp>

namespace reef::inline v0::swap::detail {

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
  static constexpr std::size_t most_work = 300'000;
  static constexpr int most_stash_slots = 16;

  /// `evaluator` outlives it.
  LocalSearch(PlanEvaluator& evaluator, Open open) : evaluator_(evaluator), open_(open) {}

  /// Changes what some segments keep and how many are resident: the latter first, or last, since
  /// both take memory. Returns the faster of the two.
  Candidate refine(const Candidate& from) {
    Candidate fastest = from;
    for (const bool resident_first : {true, false}) {
      most_ = evaluator_.work() + most_work;
      Candidate now = from;
      for (Seconds before = never; before > PlanEvaluator::alike * now.step;) {
        before = now.step;
        if (resident_first) make_resident(now);
        mix(now);
        let_more_leave(now);
        if (!resident_first) make_resident(now);
      }
      polish(now);
      fastest = faster(fastest, now);
    }
    return fastest;
  }

  /// Moves that take memory from one segment and give it to another. Two segments change what they
  /// keep at once; or the number of segments that stay on the device changes by one, and then each
  /// keeps what is fastest.
  Candidate trade_memory(Candidate fastest) {
    const std::size_t at_last = evaluator_.work() + most_work / 2;
    for (bool is_faster = fastest.step < never; is_faster;) {
      is_faster = false;
      for (const int more : {0, -1, 1}) {
        most_ = std::min(at_last, evaluator_.work() + most_work / 6);
        Candidate changed = fastest;
        changed.choice.swapping.resident_segments += more;
        if (more != 0 && !may_be_resident(changed.choice)) continue;
        if (more != 0) changed.step = evaluator_.step_of(changed.choice, never);
        do polish(changed);
        while (change_two(changed));
        if (!is_shorter(changed, fastest)) continue;
        fastest = std::move(changed);
        is_faster = true;
        break;
      }
    }
    return fastest;
  }

private:
  [[nodiscard]] bool may_work() const { return evaluator_.work() <= most_; }

  static bool is_shorter(const Candidate& changed, const Candidate& than) {
    return changed.step * PlanEvaluator::alike < than.step;
  }

  /// Whether it is faster, and so takes the place of the other.
  bool replaces(Candidate& changed, Candidate& fastest) {
    if (!may_work()) return false;
    changed.step = evaluator_.step_below(changed.choice, fastest.step);
    if (!is_shorter(changed, fastest)) return false;
    fastest = std::move(changed);
    return true;
  }

  static int segments_of(const run::Choice& choice) {
    return static_cast<int>(choice.cuts.size()) - 1;
  }

  [[nodiscard]] bool may_be_resident(const run::Choice& choice) const {
    const int resident = choice.swapping.resident_segments;
    return open_.resident && 0 <= resident && resident < segments_of(choice);
  }

  /// Something is open, and not all is kept, than which nothing computes or moves less, but where more may stay.
  [[nodiscard]] bool may_mix(const run::Choice& choice) const {
    const std::ptrdiff_t segments = segments_of(choice) - 1;  // but the last
    if (!open_.activations || segments == 0) return false;
    const auto begin = choice.activations.begin();
    const auto kept = std::count(begin, begin + segments, run::Activations::keep);
    return kept < segments || (open_.resident && choice.swapping.resident_segments < segments);
  }

  /// Whether there are two segments that together keep something else that is faster.
  bool change_two(Candidate& fastest) {
    if (!may_mix(fastest.choice)) return false;
    const std::vector<run::Activations> now = fastest.choice.activations;
    for (std::size_t s = now.size() - 1; s-- > 1;) {  // but the last
      for (std::size_t t = s; t-- > 0;) {
        for (const run::Activations one : run::all_activations) {
          for (const run::Activations other : run::all_activations) {
            if (one == now[s] || other == now[t]) continue;
            Candidate changed = fastest;
            changed.choice.activations[s] = one;
            changed.choice.activations[t] = other;
            if (replaces(changed, fastest)) return true;
            if (!may_work()) return false;
          }
        }
      }
    }
    return false;
  }

  /// One segment after another keeps something else, where that is faster.
  void polish(Candidate& fastest) {
    if (!may_mix(fastest.choice)) return;
    const std::size_t segments = fastest.choice.activations.size() - 1;  // but the last
    for (std::size_t s = 0, unchanged = 0; unchanged < segments; s = (s + 1) % segments) {
      ++unchanged;
      for (const run::Activations other : run::all_activations) {
        if (other == fastest.choice.activations[s]) continue;
        Candidate changed = fastest;
        changed.choice.activations[s] = other;
        if (replaces(changed, fastest)) unchanged = 0;
      }
    }
  }

  /// More of what is stashed is under way at once.
  void let_more_leave(Candidate& fastest) {
    const auto stash = [](run::Activations one) { return run::stashes(one); };
    const run::Choice from = fastest.choice;
    if (from.swapping.copies_on_compute_lane ||
        std::none_of(from.activations.begin(), from.activations.end(), stash))
      return;
    improve(fastest, most_stash_slots - 1, [&](int more) {
      run::Choice changed = from;
      changed.swapping.stash_slots = 1 + more;
      return changed;
    });
  }

  /// The first segments live on the device.
  void make_resident(Candidate& fastest) {
    if (!open_.resident) return;
    const run::Choice from = fastest.choice;
    improve(fastest, segments_of(from) - 1, [&](int resident) {
      run::Choice changed = from;
      changed.swapping.resident_segments = resident;
      return changed;
    });
  }

  /// Some segments, but the last, have other activations.
  void mix(Candidate& fastest) {
    if (!may_mix(fastest.choice)) return;
    const int segments = segments_of(fastest.choice) - 1;
    for (const run::Activations other : run::all_activations) {
      for (const bool spread : {false, true}) {
        const run::Choice from = fastest.choice;
        improve(fastest, segments, [&](int count) {
          run::Choice changed = from;
          for (int s = 0; s < segments; ++s) {
            const bool changes =
                spread ? (s + 1) * count / segments > s * count / segments : s >= segments - count;
            if (changes) changed.activations[static_cast<std::size_t>(s)] = other;
          }
          return changed;
        });
      }
    }
  }

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
  std::size_t most_ = 0;  ///< work after which nothing more is looked at
};

}  // namespace reef::inline v0::swap::detail
