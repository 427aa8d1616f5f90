#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/run/costs.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE schedule::Machine machine_of(const profile::Profile& profile) {
  return {.memory_bytes_per_second = profile.memory_bytes_per_second,
          .copy_bytes_per_second = profile.copy_bytes_per_second,
          .copy_latency = profile.copy_latency};
}

namespace detail {

/// Whether what it works on, but copies, lies in host memory, most of it.
inline bool works_on_host(const schedule::Program& program,
                          const schedule::Instruction& instruction) {
  if (schedule::copies(instruction)) return false;
  Bytes on_host = 0;
  Bytes all = 0;
  for (const auto* values : {&instruction.reads, &instruction.writes, &instruction.accumulates}) {
    for (const schedule::Value& value : *values) {
      const schedule::Storage& storage = program.storages[value.storage];
      all += storage.bytes;
      if (storage.place == schedule::Place::host) on_host += storage.bytes;
    }
  }
  return 2 * on_host > all;
}

}  // namespace detail

REEF_INLINE std::vector<SegmentTimes> segment_times(const StepPlan& plan, const profile::Profile* profile) {
  constexpr Seconds least = 1e-9;  // so that no order has tasks that take none
  if (profile != nullptr) graph::require_operators_of(*plan.dag, *profile);
  std::vector<SegmentTimes> times;
  for (const graph::Segment& whole : plan.segments) {
    const graph::Segment segment =
        graph::plan_segment(*plan.dag, whole.first, whole.last, graph::Halves::yes);
    SegmentTimes sum{segment.forward_flops / 1e9, segment.backward_flops / 1e9,
                     segment.weight_half_flops / 1e9};
    if (profile != nullptr) {
      sum = {};
      for (int node = segment.first; node < segment.last; ++node) {
        const profile::OperatorProfile& entry = profile->operators[static_cast<std::size_t>(node)];
        sum.forward += entry.forward_s;
        sum.backward += entry.backward_s;
        sum.weight_backward += entry.backward_s * segment.plan(node).weight_share;
      }
    }
    sum.forward = (std::max)(sum.forward, least);
    sum.backward = (std::max)(sum.backward, 2 * least);
    sum.weight_backward = std::clamp(sum.weight_backward, least, sum.backward - least);
    times.push_back(sum);
  }
  return times;
}

REEF_INLINE void set_costs(schedule::Program& program, const StepPlan& plan,
                           const profile::Profile& profile) {
  graph::require_operators_of(*plan.dag, profile);
  for (schedule::Instruction& instruction : program.round) {
    const bool forward = instruction.kind == kinds::forward;
    const bool again = instruction.kind == kinds::recompute;
    const graph::BackwardPart part = backward_part(instruction.kind);
    if (!forward && !again && part == graph::BackwardPart::none) {
      if (profile.host_bytes_per_second > 0 && detail::works_on_host(program, instruction)) {
        instruction.cost.seconds =
            static_cast<double>(instruction.cost.bytes) / profile.host_bytes_per_second;
      }
      continue;
    }
    const auto s = static_cast<std::size_t>(instruction.index);
    const bool half = part == graph::BackwardPart::input || part == graph::BackwardPart::weight;
    const graph::Segment& segment = half ? plan.halves[s] : plan.segments[s];
    Seconds seconds = 0;
    for (int node = segment.first; node < segment.last; ++node) {
      const profile::OperatorProfile& entry = profile.operators[static_cast<std::size_t>(node)];
      if (again && !segment.plan(node).recomputed) continue;
      const double weight = segment.plan(node).weight_share;
      const double share = !half ? 1 : part == graph::BackwardPart::weight ? weight : 1 - weight;
      seconds += forward || again ? entry.forward_s : share * entry.backward_s;
    }
    instruction.cost.seconds = seconds;
  }
}

REEF_INLINE std::vector<Seconds> durations(schedule::Program program, const StepPlan& plan,
                                           const profile::Profile& profile) {
  set_costs(program, plan, profile);
  const schedule::Machine machine = machine_of(profile);
  std::vector<Seconds> result;
  for (const schedule::Instruction& instruction : program.round) {
    const bool limited_by_links = schedule::copies(instruction) || schedule::communicates(instruction.lane);
    result.push_back(limited_by_links ? 0 : schedule::duration_of(instruction, machine));
  }
  return result;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
