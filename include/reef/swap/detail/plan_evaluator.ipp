#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <reef/core/inline.hpp>
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
#include <reef/swap/detail/plan_evaluator.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

REEF_INLINE bool talks(const schedule::Program& program) {
  return std::any_of(program.round.begin(), program.round.end(), [](const schedule::Instruction& i) {
    return !i.sends.empty() || !i.receives.empty() || i.is_posted();
  });
}

REEF_INLINE void cut_off(schedule::Program& program) {
  for (schedule::Instruction& instruction : program.round) {
    instruction.sends.clear();
    instruction.receives.clear();
    instruction.completion = schedule::Completion::held;  // there is nothing that it could wait for
  }
  for (schedule::Repeat& repeat : program.repeats) repeat.first_agree = repeat.agree = schedule::Repeat::alone;
}

REEF_INLINE LowerBound lower_bound_of(const schedule::Program& program,
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

REEF_INLINE std::string heaviest_of(const run::StepPlan& plan) {
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
    Needs needs;
    for (const int id : segment.parameters) {
      const graph::Parameter& parameter = plan.dag->parameter_at(id);
      if (parameter.frozen) {
        needs.weights += parameter.spec.bytes();
      } else {
        buckets.insert(bucket_of(id));
      }
    }
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
                 (std::max)(segment.forward_workspace_bytes, segment.backward_workspace_bytes);
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

REEF_INLINE std::optional<run::Choice> PlanEvaluator::best() {
  for (;;) {
    best_ = never;
    for (const auto& [choice, known] : known_) best_ = (std::min)(best_, known.step);
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

REEF_INLINE Seconds PlanEvaluator::look(const run::Choice& choice, Seconds enough, bool fits) {
  Known& known = known_[choice];
  const bool is_enough = known.step >= enough;
  const bool is_known = known.seen && (known.exact || is_enough) && (known.fits || (is_enough && !fits));
  if (!is_known) look_closer(choice, known, enough, fits);
  return known.step;
}

REEF_INLINE void PlanEvaluator::look_closer(const run::Choice& choice, Known& known, Seconds enough, bool fits) {
  const run::StepPlan plan = programs_.plan(choice);
  schedule::Program alone = programs_.step(plan);
  alone.rank = 0;
  const std::size_t work = programs_.stages * alone.round.size();
  const bool again = known.seen && !known.exact && known.step < enough;  // a bound was not enough
  if (!known.seen) work_ += work;
  known.seen = true;
  if (does_not_fit(known, plan, schedule::max_live(alone, schedule::Place::device))) return;
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
  if (known.exact) best_ = (std::min)(best_, known.step);
}

REEF_INLINE bool PlanEvaluator::does_not_fit(Known& known, const run::StepPlan& plan, Bytes bytes) {
  if (bytes <= memory_) return false;
  if (least_ == 0 || bytes < least_) refuse(plan);
  known.step = never;
  known.exact = known.fits = true;
  return true;
}

REEF_INLINE void PlanEvaluator::time(Known& known, const schedule::Program& program) const {
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

REEF_INLINE bool PlanEvaluator::refuse(const run::StepPlan& plan) {
  const Bytes bytes = programs_.memory(plan);
  if (bytes <= memory_) return false;
  if (least_ == 0 || bytes < least_) {
    least_ = bytes;
    why_none_ = concat("the least that was found needs ", bytes, " bytes; ", heaviest_of(plan));
  }
  return true;
}

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef
