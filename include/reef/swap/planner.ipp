#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/swap/detail/cuts_to_try.hpp>
#include <reef/swap/detail/local_search.hpp>
#include <reef/swap/detail/plan_evaluator.hpp>
#include <reef/swap/planner.hpp>

namespace reef {
inline namespace v0 {
namespace swap {

REEF_INLINE run::Choice Planner::choose() {
  const std::set<std::vector<int>> partitions = partitions_to_try();
  // Those that stream come first, so a policy that does nothing else looks at no others.
  std::vector<Candidate> streaming = uniform(partitions, true);
  std::vector<Candidate> all = uniform(partitions, false);
  all.insert(all.begin(), streaming.begin(), streaming.end());
  if (all.empty()) all = with_some_resident(partitions);
  std::vector<Candidate> thinned = uniform(thinned_to_try(all), false);
  add_resident(all);
  add_resident(thinned);
  refine({fastest_of(finest_of(all)), fastest_of(std::move(all)), fastest_of(std::move(thinned))},
         fastest_of(std::move(streaming)));
  if (std::optional<run::Choice> best = evaluator_.best()) return *std::move(best);
  throw ScheduleError("reef::Trainer: no way was found to swap this model through a device of ",
                      limits_.memory, " bytes, ", limits_.accumulation,
                      " micro-batches a step.\n  why: ", evaluator_.why_none(),
                      ".\n  fix: that much memory, a smaller micro-batch, or fewer of them.");
}

REEF_INLINE std::set<std::vector<int>> Planner::partitions_to_try() const {
  if (limits_.cuts.empty())
    return with_bounds(
        detail::cuts_to_try(dag_, profile_, limits_.memory, limits_.accumulation));
  std::vector<int> cuts{0};
  cuts.insert(cuts.end(), limits_.cuts.begin(), limits_.cuts.end());
  cuts.push_back(dag_.node_count());
  return {std::move(cuts)};
}

REEF_INLINE std::set<std::vector<int>> Planner::with_bounds(const std::set<std::vector<int>>& partitions) const {
  std::set<std::vector<int>> all;
  for (const std::vector<int>& cuts : partitions) {
    std::vector<int> both;
    std::set_union(cuts.begin(), cuts.end(), limits_.bounds.begin(), limits_.bounds.end(),
                   std::back_inserter(both));
    all.insert(std::move(both));
  }
  return all;
}

REEF_INLINE std::vector<Planner::Candidate> Planner::uniform(const std::set<std::vector<int>>& partitions,
                                                             bool streams) {
  max_ = evaluator_.work() + max_uniform_work;
  std::vector<Candidate> found;
  for (const std::vector<int>& cuts : partitions) {
    if (found.empty() || may_work()) add_uniform(found, cuts, streams);
  }
  return found;
}

REEF_INLINE void Planner::add_uniform(std::vector<Candidate>& found, const std::vector<int>& cuts, bool streams) {
  const std::size_t segments = cuts.size() - 1;
  const run::SwapSchedule* too_many = nullptr;
  for (std::size_t m = 0; m < limits_.schedules.size(); ++m) {
    const run::SwapSchedule& swapping = limits_.schedules[m];
    if (swapping.per_micro_batch != streams) continue;
    const auto as_before = [&](const run::SwapSchedule& other) {
      run::SwapSchedule same = swapping;
      same.weight_slots = other.weight_slots;
      same.stash_slots = (std::min)(same.stash_slots, other.stash_slots);  // no less than that
      return same == other;
    };
    // More slots than segments are none (those for stashes are changed later), and what does not fit
    // with few does not fit with many.
    if (m > 0 && as_before(limits_.schedules[m - 1]) &&
        static_cast<std::size_t>(limits_.schedules[m - 1].weight_slots) >= segments) {
      continue;
    }
    if (too_many != nullptr && as_before(*too_many)) continue;
    Candidate fastest = fastest_uniform(cuts, swapping);
    if (fastest.step < detail::never) {
      found.push_back(std::move(fastest));
    } else {
      too_many = &swapping;
    }
  }
}

REEF_INLINE std::vector<Planner::Candidate> Planner::with_some_resident(const std::set<std::vector<int>>& partitions) {
  std::vector<Candidate> found;
  if (!limits_.allows_resident_segments) return found;
  max_ = evaluator_.work() + max_uniform_work;
  for (const std::vector<int>& cuts : partitions) {
    for (const run::SwapSchedule& swapping : limits_.schedules) {
      if (swapping.weight_slots > limits_.schedules.front().weight_slots)
        continue;  // takes more memory
      const Candidate fewest = fewest_resident(cuts, swapping);
      if (fewest.step < detail::never) found.push_back(fewest);
    }
  }
  return found;
}

REEF_INLINE Planner::Candidate Planner::fewest_resident(const std::vector<int>& cuts,
                                                        const run::SwapSchedule& swapping) {
  Candidate next{{cuts, activations_to_try(cuts.size() - 1).back(), swapping}};
  int& resident = next.choice.swapping.resident_segments;
  for (resident = 1; resident + 1 < static_cast<int>(cuts.size()) && may_work(); ++resident) {
    next.step = evaluator_.step_of(next.choice);
    if (next.step < detail::never) break;
  }
  return next;
}

REEF_INLINE std::vector<std::vector<run::Activations>> Planner::activations_to_try(
    std::size_t segments) const {
  if (!limits_.activations.empty()) return {limits_.activations};
  std::vector<std::vector<run::Activations>> all;
  for (const run::Activations one : run::all_activations) all.emplace_back(segments, one);
  return all;
}

REEF_INLINE Planner::Candidate Planner::fastest_uniform(const std::vector<int>& cuts,
                                                        const run::SwapSchedule& swapping) {
  Candidate fastest;
  for (const std::vector<run::Activations>& activations : activations_to_try(cuts.size() - 1)) {
    Candidate next{{cuts, activations, swapping}};
    next.step = evaluator_.step_of(next.choice);
    const bool fits = next.step < detail::never;
    fastest = detail::faster(fastest, next);
    // Of those of which as many stay, nothing else computes or moves less.
    if (activations.front() == run::Activations::keep && fits) break;
  }
  return fastest;
}

REEF_INLINE std::set<std::vector<int>> Planner::thinned_to_try(const std::vector<Candidate>& from) {
  std::set<std::vector<int>> all;
  const std::vector<Candidate> fastest = fastest_of(from);
  const Seconds kernels =
      static_cast<double>(limits_.accumulation) * (profile_.forward_s() + profile_.backward_s());
  const bool nothing_to_gain = !fastest.empty() && fastest.front().step <= hidden * kernels;
  if (!limits_.cuts.empty() || nothing_to_gain) return all;
  for (const Candidate& fast : fastest) {
    for (const int quarters : {1, 2, 3, 4}) {
      all.insert(detail::thinned(dag_, fast.choice.cuts, quarters, 4));
    }
  }
  all = with_bounds(all);
  for (const Candidate& known : from) all.erase(known.choice.cuts);
  return all;
}

REEF_INLINE void Planner::add_resident(std::vector<Candidate>& candidates) {
  if (!limits_.allows_resident_segments) return;
  for (const Candidate& fast : fastest_of(candidates)) {
    max_ = evaluator_.work() + detail::LocalSearch::max_work;
    for (const run::SwapSchedule& swapping : limits_.schedules) {
      for (const auto& activations : activations_to_try(fast.choice.activations.size())) {
        const Candidate most = max_resident({fast.choice.cuts, activations, swapping});
        if (most.step < detail::never) candidates.push_back(most);
      }
    }
  }
}

REEF_INLINE Planner::Candidate Planner::max_resident(const run::Choice& choice) {
  Candidate most{choice};
  int low = 0;
  int high = static_cast<int>(choice.cuts.size()) - 2;
  while (low < high && may_work()) {
    Candidate more = most;
    more.choice.swapping.resident_segments = (low + high + 1) / 2;
    more.step = evaluator_.step_of(more.choice);
    if (more.step < detail::never) {
      low = more.choice.swapping.resident_segments;
      most = std::move(more);
    } else {
      high = more.choice.swapping.resident_segments - 1;
    }
  }
  return most;
}

REEF_INLINE Planner::Candidate Planner::take_fastest(std::vector<Candidate>& candidates) {
  for (;;) {
    const auto first =
        std::min_element(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.step < b.step; });
    const Seconds step = evaluator_.step_of(first->choice, detail::never);
    if (step == first->step) {
      Candidate fastest = std::move(*first);
      candidates.erase(first);
      return fastest;
    }
    first->step = step;
  }
}

REEF_INLINE std::vector<Planner::Candidate> Planner::fastest_of(std::vector<Candidate> left) {
  std::vector<Candidate> fastest;
  while (!left.empty() && fastest.size() < refined) {
    Candidate next = take_fastest(left);
    const auto is_alike = [&](const Candidate& other) {
      return other.choice.cuts == next.choice.cuts &&
             other.choice.swapping.resident_segments == next.choice.swapping.resident_segments &&
             other.choice.swapping.stash_slots == next.choice.swapping.stash_slots;
    };
    if (std::none_of(fastest.begin(), fastest.end(), is_alike))
      fastest.push_back(std::move(next));
  }
  return fastest;
}

REEF_INLINE std::vector<Planner::Candidate> Planner::finest_of(const std::vector<Candidate>& candidates) {
  std::size_t most = 0;
  for (const Candidate& one : candidates) most = (std::max)(most, one.choice.cuts.size());
  std::vector<Candidate> finest;
  for (const Candidate& one : candidates) {
    if (one.choice.cuts.size() == most) finest.push_back(one);
  }
  return finest;
}

REEF_INLINE void Planner::refine(const std::vector<std::vector<Candidate>>& some,
            const std::vector<Candidate>& streaming) {
  detail::LocalSearch search(evaluator_,
                             {limits_.activations.empty(), limits_.allows_resident_segments});
  std::vector<std::pair<run::Choice, Candidate>> known;  // and what has become of them
  const auto refined_of = [&](const Candidate& candidate) {
    for (const auto& [choice, became] : known) {
      if (choice == candidate.choice) return became;
    }
    return known.emplace_back(candidate.choice, search.refine(candidate)).second;
  };
  Candidate best;
  for (const std::vector<Candidate>& group : some) {
    for (const Candidate& candidate : group) best = detail::faster(best, refined_of(candidate));
  }
  Candidate streams;
  for (const Candidate& candidate : streaming) {
    streams = detail::faster(streams, refined_of(candidate));
  }
  search.trade_memory(best);
  if (streams.choice != best.choice) search.trade_memory(streams);
}

}  // namespace swap
}  // namespace v0
}  // namespace reef
