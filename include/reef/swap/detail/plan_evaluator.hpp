#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

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

namespace reef {
inline namespace v0 {
namespace swap::detail {

/// The time of what does not fit. Finite, since builds may assume that all numbers are (-ffast-math).
inline constexpr Seconds never = 1e300;

/// Whether something is told to other ranks.
bool talks(const schedule::Program& program);

/// Takes that out, for a simulation of one alone.
void cut_off(schedule::Program& program);

/// What a step takes at least, whatever waits for what.
struct LowerBound {
  Seconds step = 0;  ///< all that one lane does
  Bytes moved = 0;   ///< over the link, on lanes of its own
};

/// The bound for a program whose loops do not iterate, on a rank that waits for no other.
LowerBound lower_bound_of(const schedule::Program& program,
                          const schedule::Machine& machine);

/// The segment that takes the most memory, in words: what it alone has for one micro-batch, unaligned.
std::string heaviest_of(const run::StepPlan& plan);

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
    return look(choice, (std::max)(enough, alike * best_), true);
  }

  /// The same for whoever has no use for `enough` or more: that is had for less still, and may be of what does not fit.
  Seconds step_below(const run::Choice& choice, Seconds enough) {
    return look(choice, (std::max)(enough, alike * best_), false);
  }

  /// The fastest that fits with all its programs; of those that are alike what moves least, since copies take
  /// the time of memory. None: nothing fits.
  std::optional<run::Choice> best();

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
  Seconds look(const run::Choice& choice, Seconds enough, bool fits);

  void look_closer(const run::Choice& choice, Known& known, Seconds enough, bool fits);

  [[nodiscard]] bool does_not_fit(Known& known, const run::StepPlan& plan, Bytes bytes);

  /// What shares bytes waits for nothing that it would not wait for anyway, so it takes no placement.
  void time(Known& known, const schedule::Program& program) const;

  /// Whether it needs more than there is, with all its programs.
  bool refuse(const run::StepPlan& plan);

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

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swap/detail/plan_evaluator.ipp>
#endif
