#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
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
#include <reef/run/placed_program.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/simulate.hpp>

namespace reef::inline v0::swap::detail {

/// Takes out what is told to other ranks, for a simulation of one alone.
inline void cut_off(schedule::Program& program) {
  program.rank = 0;
  for (schedule::Instruction& instruction : program.round) {
    instruction.sends.clear();
    instruction.receives.clear();
  }
}

/// What a program takes over the link.
inline Bytes moved_bytes(const schedule::Program& program) {
  Bytes bytes = 0;
  for (const schedule::Instruction& instruction : program.round) {
    const bool moves =
        instruction.lane == schedule::Lane::load || instruction.lane == schedule::Lane::evict;
    if (moves) bytes += instruction.cost.bytes;
  }
  return bytes;
}

/// No step is shorter: all that the compute lane does, or all that comes over the link, or all that leaves.
inline Seconds least_step(const schedule::Program& program, const schedule::Machine& machine) {
  std::array<Seconds, schedule::lane_count> busy{};
  for (const schedule::Instruction& instruction : program.round) {
    busy[static_cast<std::size_t>(instruction.lane)] +=
        schedule::detail::duration_of(instruction, machine);
  }
  return *std::max_element(busy.begin(), busy.end());
}

/// The segment that a device has to be largest for, in words.
inline std::string heaviest_of(const run::StepPlan& plan) {
  const auto weights = [&](const graph::Segment& segment) {
    Bytes bytes = 0;
    for (const int id : segment.parameters)
      bytes += plan.dag->parameters[static_cast<std::size_t>(id)].spec.bytes();
    return bytes;
  };
  const auto work = [](const graph::Segment& segment) {
    return segment.saved_bytes +
           std::max(segment.forward_workspace_bytes, segment.backward_workspace_bytes);
  };
  const auto less = [&](const graph::Segment& a, const graph::Segment& b) {
    return 2 * weights(a) + work(a) < 2 * weights(b) + work(b);
  };
  const graph::Segment& segment =
      *std::max_element(plan.segments.begin(), plan.segments.end(), less);
  const auto name = [&](int node) {
    return concat("'", plan.dag->nodes[static_cast<std::size_t>(node)].name, "'");
  };
  return concat("its largest segment, ", name(segment.first), " to ", name(segment.last - 1),
                ", has ", weights(segment), " bytes of weights, their gradients, and ",
                work(segment), " bytes to work with");
}

/// How a trainer writes its programs.
struct Programs {
  std::function<run::StepPlan(const run::Choice&)> plan;
  std::function<run::PlacedProgram(const run::StepPlan&)> step;
  std::function<Bytes(const run::StepPlan&)> memory;  ///< on the device, of all that there are
};

/// Says what candidates take, and remembers them.
class Judge {
public:
  /// Two predictions that no measurement tells apart.
  static constexpr double alike = 1.003;

  /// `profile` outlives it.
  Judge(const profile::Profile& profile, Bytes memory, Programs programs)
      : profile_(profile),
        machine_(run::machine_of(profile)),
        memory_(memory),
        programs_(std::move(programs)) {}

  /// The time of a step, HUGE_VAL if it does not fit; where it cannot be the best, a bound of that.
  Seconds judge(run::Choice choice) {
    const run::StepPlan plan = programs_.plan(choice);
    const run::PlacedProgram placed = programs_.step(plan);
    work_ += placed.program.round.size();
    if (placed.placement.device_bytes > memory_) {
      refuse(placed.placement.device_bytes, plan);
      return HUGE_VAL;
    }
    schedule::Program alone = placed.program;
    run::set_costs(alone, plan, profile_);
    cut_off(alone);
    Seconds step = least_step(alone, machine_);
    if (step <= alike * best_) {
      const auto world = schedule::World::uniform(1, machine_, {});
      const std::span placement(&placed.placement, 1);
      step = schedule::simulate(std::span(&alone, 1), placement, world, 1).total;
    }
    best_ = std::min(best_, step);
    found_.push_back({std::move(choice), step, moved_bytes(alone)});
    return step;
  }

  /// The fastest that fits with all its programs; of those that are alike what moves least, since copies take
  /// the time of memory. None: nothing fits.
  std::optional<run::Choice> best() {
    const auto key = [this](const Candidate& c) {
      const bool fast = c.step <= alike * best_;
      return std::tuple(!fast, fast ? 0 : c.step, c.moved, c.choice.cuts.size());
    };
    std::stable_sort(found_.begin(), found_.end(),
                     [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
    for (const Candidate& candidate : found_) {
      const run::StepPlan plan = programs_.plan(candidate.choice);
      const Bytes bytes = programs_.memory(plan);
      if (bytes <= memory_) return candidate.choice;
      refuse(bytes, plan);
    }
    return std::nullopt;
  }

  /// Of those that do not fit, the most modest: what it needs, and what it needs it for.
  [[nodiscard]] const std::string& why_none() const { return why_none_; }

  /// Instructions of all programs that were looked at: a count, unlike a time, is the same on all ranks.
  [[nodiscard]] std::size_t work() const { return work_; }

private:
  struct Candidate {
    run::Choice choice;
    Seconds step = HUGE_VAL;  ///< or a bound, where that is more than the best
    Bytes moved = 0;
  };

  void refuse(Bytes bytes, const run::StepPlan& plan) {
    if (least_ > 0 && bytes >= least_) return;
    least_ = bytes;
    why_none_ = concat("the least that was found needs ", bytes, " bytes; ", heaviest_of(plan));
  }

  const profile::Profile& profile_;
  schedule::Machine machine_;
  Bytes memory_;
  Programs programs_;
  std::vector<Candidate> found_{};  ///< that fit
  Seconds best_ = HUGE_VAL;
  Bytes least_ = 0;
  std::string why_none_{};
  std::size_t work_ = 0;
};

}  // namespace reef::inline v0::swap::detail
