#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/segment.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/costs.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/simulator.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

namespace reef::inline v0::swap::detail {

/// The time of what does not fit. Finite, since builds may assume that all numbers are (-ffast-math).
inline constexpr Seconds never = 1e300;

/// Whether something is told to other ranks.
inline bool talks(const schedule::Program& program) {
  return std::any_of(program.round.begin(), program.round.end(), [](const schedule::Instruction& i) {
    return !i.sends.empty() || !i.receives.empty() || i.is_posted();
  });
}

/// Takes that out, for a simulation of one alone.
inline void cut_off(schedule::Program& program) {
  for (schedule::Instruction& instruction : program.round) {
    instruction.sends.clear();
    instruction.receives.clear();
    instruction.completion = schedule::Completion::held;  // there is nothing that it could wait for
  }
  for (schedule::Repeat& repeat : program.repeats) repeat.first_agree = repeat.agree = schedule::Repeat::alone;
}

/// What a step takes at least, whatever waits for what.
struct LowerBound {
  Seconds step = 0;  ///< all that one lane does
  Bytes moved = 0;   ///< over the link, on lanes of its own
};

/// The bound for a program whose loops do not iterate, on a rank that waits for no other.
inline LowerBound lower_bound_of(const schedule::Program& program,
                                 const schedule::Machine& machine) {
  const std::vector<std::uint32_t> loops = schedule::loop_by_instruction(program);
  std::array<Seconds, schedule::lane_count> busy{};
  LowerBound bound;
  for (std::size_t i = 0; i < program.round.size(); ++i) {
    const schedule::Instruction& instruction = program.round[i];
    if (loops[i] != schedule::no_loop) continue;
    busy[static_cast<std::size_t>(instruction.lane)] += schedule::duration_of(instruction, machine);
    const bool moves =
        instruction.lane == schedule::Lane::load || instruction.lane == schedule::Lane::evict;
    if (moves) bound.moved += instruction.cost.bytes;
  }
  bound.step = *std::max_element(busy.begin(), busy.end());
  return bound;
}

/// The segment that takes the most memory, in words: what it alone has for one micro-batch, unaligned.
inline std::string heaviest_of(const run::StepPlan& plan) {
  struct Needs {
    Bytes weights = 0;
    Bytes gradients = 0;
    Bytes work = 0;
    [[nodiscard]] Bytes all() const { return weights + gradients + work; }
  };
  const auto needs_of = [&](std::size_t s) {
    const graph::Segment& segment = plan.segments[s];
    const int own = plan.bucket_of_segment[s];
    const auto bucket_of = [&](int id) {
      return plan.bucket_of_parameter[static_cast<std::size_t>(id)];
    };
    std::set<int> buckets;  // come as a whole
    for (const int id : segment.parameters) buckets.insert(bucket_of(id));
    Needs needs;
    for (const int b : buckets) {
      const run::Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
      const auto elements = static_cast<Bytes>(bucket.end - bucket.begin);
      needs.weights += elements * plan.element_bytes();
      if (b == own) needs.gradients += elements * plan.gradient_bytes();
    }
    for (const int use : segment.uses) {
      const int id = plan.dag->use_at(use).parameter;
      if (bucket_of(id) == own) continue;
      needs.gradients +=
          static_cast<Bytes>(plan.dag->parameter_at(id).spec.shape.size()) * plan.gradient_bytes();
    }
    needs.work = segment.saved_bytes +
                 std::max(segment.forward_workspace_bytes, segment.backward_workspace_bytes);
    return needs;
  };
  std::size_t heaviest = 0;
  for (std::size_t s = 1; s < plan.segments.size(); ++s) {
    if (needs_of(s).all() > needs_of(heaviest).all()) heaviest = s;
  }
  const graph::Segment& segment = plan.segments[heaviest];
  const auto name = [&](int node) {
    return concat("'", plan.dag->nodes[static_cast<std::size_t>(node)].name, "'");
  };
  const Needs needs = needs_of(heaviest);
  return concat("its largest segment, ", name(segment.first), " to ", name(segment.last - 1),
                ", has ", needs.weights, " bytes of weights, ", needs.gradients,
                " of gradients, and ", needs.work, " to work with");
}

/// How a trainer writes its programs.
struct Programs {
  std::function<run::StepPlan(const run::Choice&)> plan;
  std::function<schedule::Program(const run::StepPlan&)> step;
  std::function<Bytes(const run::StepPlan&)> memory;  ///< on the device, of all that there are
  std::size_t stages = 1;  ///< of which step() looks at one after another
};

/// Says what candidates take, and remembers them.
class PlanEvaluator {
public:
  /// Two predictions that no measurement tells apart.
  static constexpr double alike = 1.003;

  /// `profile` outlives it.
  PlanEvaluator(const profile::Profile& profile, Bytes memory, Programs programs)
      : profile_(profile),
        machine_(run::machine_of(profile)),
        memory_(memory),
        programs_(std::move(programs)) {}

  /// The time of a step, `never` if it does not fit. From `enough` on, and from where it is not the best, it
  /// may be a bound, which is had for less.
  Seconds step_of(const run::Choice& choice, Seconds enough = 0) {
    return look(choice, std::max(enough, alike * best_), true);
  }

  /// The same for whoever has no use for `enough` or more: that is had for less still, and may be of what does not fit.
  Seconds step_below(const run::Choice& choice, Seconds enough) {
    return look(choice, std::max(enough, alike * best_), false);
  }

  /// The fastest that fits with all its programs; of those that are alike what moves least, since copies take
  /// the time of memory. None: nothing fits.
  std::optional<run::Choice> best() {
    for (;;) {
      best_ = never;
      for (const auto& [choice, known] : known_) best_ = std::min(best_, known.step);
      if (best_ == never) return std::nullopt;
      const auto order = [this](const auto& entry) {
        const Known& known = entry.second;
        const bool fast = known.step <= alike * best_;
        return std::tuple(!fast, fast ? 0 : known.step, known.moved, entry.first.cuts.size());
      };
      auto& [choice, first] =
          *std::min_element(known_.begin(), known_.end(),
                            [&](const auto& a, const auto& b) { return order(a) < order(b); });
      if (!first.exact || !first.fits) {
        look(choice, never, true);
      } else if (refuse(programs_.plan(choice))) {
        first.step = never;
      } else {
        return choice;
      }
    }
  }

  /// Of those that do not fit, the most modest: what it needs, and what it needs it for.
  [[nodiscard]] const std::string& why_none() const { return why_none_; }

  /// Instructions of all programs that were looked at: a count, unlike a time, is the same on all ranks.
  [[nodiscard]] std::size_t work() const { return work_; }

private:
  struct Known {
    Seconds step = 0;  ///< or a bound
    bool seen = false;
    bool exact = false;  ///< it is no bound
    bool fits = false;   ///< it does, or it is `never`; else that is not known yet
    Bytes moved = 0;
  };

  /// `fits`: what is returned is of what fits, or `never`.
  Seconds look(const run::Choice& choice, Seconds enough, bool fits) {
    Known& known = known_[choice];
    const bool is_enough = known.step >= enough;
    const bool is_known = known.seen && (known.exact || is_enough) && (known.fits || (is_enough && !fits));
    if (!is_known) look_closer(choice, known, enough, fits);
    return known.step;
  }

  void look_closer(const run::Choice& choice, Known& known, Seconds enough, bool fits) {
    const run::StepPlan plan = programs_.plan(choice);
    schedule::Program alone = programs_.step(plan);
    alone.rank = 0;
    const std::size_t work = programs_.stages * alone.round.size();
    const bool again = known.seen && !known.exact && known.step < enough;  // a bound was not enough
    if (!known.seen) work_ += work;
    known.seen = true;
    if (does_not_fit(known, plan, schedule::most_live(alone, schedule::Place::device))) return;
    run::set_costs(alone, plan, profile_);
    if (!known.exact) {
      const LowerBound bound = lower_bound_of(alone, machine_);
      known.moved = bound.moved;
      known.step = bound.step;
    }
    // Whoever knows that it takes too long does not ask for its placement, which takes most of the time.
    const bool asks = fits || again;
    if (!asks && known.step < enough && !known.exact) time(known, alone);
    if (!asks && known.step >= enough) return;
    if (does_not_fit(known, plan, schedule::place(alone).device_bytes)) return;
    known.fits = true;
    if (again) work_ += work;
    if (known.step < enough && !known.exact) time(known, alone);
    if (known.exact) best_ = std::min(best_, known.step);
  }

  [[nodiscard]] bool does_not_fit(Known& known, const run::StepPlan& plan, Bytes bytes) {
    if (bytes <= memory_) return false;
    if (least_ == 0 || bytes < least_) refuse(plan);
    known.step = never;
    known.exact = known.fits = true;
    return true;
  }

  /// What shares bytes waits for nothing that it would not wait for anyway, so it takes no placement.
  void time(Known& known, const schedule::Program& program) const {
    if (talks(program)) {
      schedule::Program alone = program;
      cut_off(alone);
      return time(known, alone);
    }
    const schedule::Dependencies waits = schedule::detail::derive_in_round(program);
    const auto world = schedule::World::uniform(1, machine_, {});
    known.step = schedule::detail::Simulator({&program, 1}, {&waits, 1}, world, 1, {}).run().total;
    known.exact = true;
  }

  /// Whether it needs more than there is, with all its programs.
  bool refuse(const run::StepPlan& plan) {
    const Bytes bytes = programs_.memory(plan);
    if (bytes <= memory_) return false;
    if (least_ == 0 || bytes < least_) {
      least_ = bytes;
      why_none_ = concat("the least that was found needs ", bytes, " bytes; ", heaviest_of(plan));
    }
    return true;
  }

  const profile::Profile& profile_;
  schedule::Machine machine_;
  Bytes memory_;
  Programs programs_;
  std::map<run::Choice, Known> known_{};
  Seconds best_ = never;
  Bytes least_ = 0;
  std::string why_none_{};
  std::size_t work_ = 0;
};

}  // namespace reef::inline v0::swap::detail
