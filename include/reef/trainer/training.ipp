#pragma once

#include <algorithm>

#include <reef/comm/agreement.hpp>
#include <reef/comm/at_work.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/proof.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {

REEF_INLINE Training::~Training() = default;

REEF_INLINE void Training::set_progress(std::int64_t committed,
                                        const comm::CounterState& micro_batches, std::int64_t began,
                                        std::optional<std::int64_t> updates) {
  same_weights_ = false;  // on all ranks, whatever each of them holds
  state_.committed = committed;
  state_.updates = updates.value_or(committed);
  state_.micro_batch = micro_batches.next;
  taken_ = divide_up(micro_batches.next, replicas());
  if (facts_.periodic) state_.began = pending() ? began : committed;
  if (counter_) counter_->reset(micro_batches);
}

REEF_INLINE comm::CounterState Training::new_micro_batches() {
  if (counter_) return counter_->state();
  if (!plan_.adapts) return {state_.micro_batch};
  const auto taken = comm::gather_numbers(*progress_, "micro-batches taken", taken_);
  return {*std::max_element(taken.begin(), taken.end()) * replicas()};
}

REEF_INLINE void Training::weights_were_set(std::string_view parameter) {
  same_weights_ = false;
  if (weights_set_.empty()) weights_set_ = parameter;
  state_.began = state_.committed;
}

REEF_INLINE void Training::require_same_weights() {
  if (ranks() > 1 && model_state_->has_committed_weights()) {
    const std::int64_t step = state_.committed + 1;
    const comm::AtWork at_work(
        *progress_, concat("the comparison of weights before step ", step),
        weights_set_.empty()
            ? std::string()
            : concat("weights were set (parameter '", weights_set_, "') before step ", step));
    std::vector<comm::Alike> mine;
    for (const graph::Parameter& parameter : plan_.dag->parameters) {
      if (!holds(parameter.name)) continue;
      mine.push_back({concat("weights of '", parameter.name, "'"),
                      concat("checksum ", model_state_->checksum(parameter.name))});
    }
    for (const StateRange& range : state_ranges()) {
      if (!range.master || range.kept != StateRange::Kept::whole) continue;
      mine.push_back({concat("master weights from element ", range.begin, " on"),
                      concat("checksum ", model_state_->checksum(range))});
    }
    comm::require_alike(
        *progress_, "reef::Trainer::step", "weights", mine,
        "set_parameter with the same values on every rank, or start all of them from "
        "the same file.",
        plan_.topology.stages == 1 ? comm::Missing::differs : comm::Missing::ignored);
  }
  same_weights_ = true;
  weights_set_.clear();
}

REEF_INLINE void Training::require_memory(const detail::Policies& policies, std::vector<Bytes> own,
                                          Bytes memory_bytes) {
  const std::vector<detail::ProgramKey> keys = policies.programs_in(plan_);
  own.push_back(memory_bytes);
  const std::vector<Bytes> all = run::lists_of_all(*progress_, "memory of programs", own);
  schedule::Limits limits;
  limits.device_bytes = memory_bytes;
  for (std::size_t i = 0; memory_bytes > 0 && i < all.size(); ++i) {
    const std::size_t first = i / own.size() * own.size();  // of its rank
    const std::size_t key = i - first;
    if (all[first + keys.size()] != memory_bytes || key == keys.size() || all[i] <= memory_bytes) continue;
    const run::PlacedProgram other(policies.build(plan_, static_cast<int>(i / own.size()), keys[key]));
    schedule::verify_memory(other.program, other.placement, limits);
  }
}

}  // namespace v0
}  // namespace reef
