#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/swap/detail/local_search.hpp>
#include <reef/swap/detail/plan_evaluator.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

REEF_INLINE Candidate LocalSearch::refine(const Candidate& from) {
  Candidate fastest = from;
  for (const bool resident_first : {true, false}) {
    max_ = evaluator_.work() + max_work;
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

REEF_INLINE Candidate LocalSearch::trade_memory(Candidate fastest) {
  const std::size_t at_last = evaluator_.work() + max_work / 2;
  for (bool is_faster = fastest.step < never; is_faster;) {
    is_faster = false;
    for (const int more : {0, -1, 1}) {
      max_ = (std::min)(at_last, evaluator_.work() + max_work / 6);
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

REEF_INLINE bool LocalSearch::replaces(Candidate& changed, Candidate& fastest) {
  if (!may_work()) return false;
  changed.step = evaluator_.step_below(changed.choice, fastest.step);
  if (!is_shorter(changed, fastest)) return false;
  fastest = std::move(changed);
  return true;
}

REEF_INLINE bool LocalSearch::may_be_resident(const run::Choice& choice) const {
  const int resident = choice.swapping.resident_segments;
  return open_.resident && 0 <= resident && resident < segments_of(choice);
}

REEF_INLINE bool LocalSearch::may_mix(const run::Choice& choice) const {
  const std::ptrdiff_t segments = segments_of(choice) - 1;  // but the last
  if (!open_.activations || segments == 0) return false;
  const auto begin = choice.activations.begin();
  const auto kept = std::count(begin, begin + segments, run::Activations::keep);
  return kept < segments || (open_.resident && choice.swapping.resident_segments < segments);
}

REEF_INLINE bool LocalSearch::change_two(Candidate& fastest) {
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

REEF_INLINE void LocalSearch::polish(Candidate& fastest) {
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

REEF_INLINE void LocalSearch::let_more_leave(Candidate& fastest) {
  const auto stash = [](run::Activations one) { return run::stashes(one); };
  const run::Choice from = fastest.choice;
  if (from.swapping.copies_on_compute_lane ||
      std::none_of(from.activations.begin(), from.activations.end(), stash))
    return;
  improve(fastest, max_stash_slots - 1, [&](int more) {
    run::Choice changed = from;
    changed.swapping.stash_slots = 1 + more;
    return changed;
  });
}

REEF_INLINE void LocalSearch::make_resident(Candidate& fastest) {
  if (!open_.resident) return;
  const run::Choice from = fastest.choice;
  improve(fastest, segments_of(from) - 1, [&](int resident) {
    run::Choice changed = from;
    changed.swapping.resident_segments = resident;
    return changed;
  });
}

REEF_INLINE void LocalSearch::mix(Candidate& fastest) {
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

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef
