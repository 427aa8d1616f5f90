#pragma once

#include <algorithm>
#include <utility>

#include <reef/comm/agreement.hpp>
#include <reef/comm/at_work.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/hash.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/proof.hpp>
#include <reef/schedule/hash.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/trainer/detail/agreement.hpp>
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

REEF_INLINE std::exception_ptr Training::difference(const std::string& what, const std::vector<comm::Alike>& mine,
                                                    const std::string& fix) {
  const std::string difference = comm::difference(*progress_, what, mine);
  if (difference.empty()) return {};
  return std::make_exception_ptr(OptionError("reef::Trainer: ", difference, ".\n  fix: ", fix));
}

REEF_INLINE std::exception_ptr Training::verify_together(const detail::Policies& policies, const TrainerSettings& settings,
                                                         Bytes memory_bytes, std::span<const run::PlacedProgram* const> own) {
  std::vector<run::Said> said;
  for (const run::PlacedProgram* const program : own) said.push_back(run::proved(*program));
  if (ranks() > 1) {
    if (std::exception_ptr error = require_same_plan(policies, settings, own)) return error;
  }
  require_memory(policies, memory_bytes, own);
  const std::string problem = run::problem_of_all(*progress_, said);
  if (problem.empty()) return {};
  return std::make_exception_ptr(ScheduleError(problem));
}

/// Compares the plans of all ranks: what no program shows of them, and of each rank's programs what it builds itself
/// with what the rank ahead of it does. Only where ranks differ the programs of all are built, to say who does.
REEF_INLINE std::exception_ptr Training::require_same_plan(const detail::Policies& policies, const TrainerSettings& settings,
                                                           std::span<const run::PlacedProgram* const> own) {
  const graph::Dag& dag = *plan_.dag;
  Hash plan;
  plan.add(graph::hash_of(dag));
  if (const auto given = graph::hash_of_given(dag)) plan.add(*given);
  plan_.topology.add_to(plan);
  policies.add_to(plan, settings);
  run::PlanHashes hashes;
  hashes.alike = plan.value();
  hashes.next = detail::hash_of_programs(policies, plan_, (rank() + 1) % ranks());
  Hash programs;
  for (const run::PlacedProgram* const program : own) programs.add(schedule::hash_of(std::span(&program->program, 1)));
  hashes.own = programs.value();
  if (const auto agreed = run::plans_agree(*progress_, hashes)) {
    plan_.agreed = *agreed;
    return {};
  }
  for (int r = 0; r < ranks(); ++r) plan.add(detail::hash_of_programs(policies, plan_, r));
  std::vector<comm::Alike> mine = detail::alike_of_plan(dag, settings, plan.value());
  mine.push_back({"topology", plan_.topology.text()});
  for (comm::Alike& of_policy : policies.alike(settings)) mine.push_back(std::move(of_policy));
  if (std::exception_ptr error = difference("what a plan follows from", mine,
                                            "start every rank with the same program, model, batch, policies, options and "
                                            "profile.")) {
    return error;
  }
  throw OptionError(
      "reef::Trainer: the programs of a rank are not those that the rank ahead of it builds of it.\n"
      "  fix: policies that write the same program of the same plan each time.");
}

REEF_INLINE void Training::require_memory(const detail::Policies& policies, Bytes memory_bytes,
                                          std::span<const run::PlacedProgram* const> programs) {
  std::vector<Bytes> own;
  for (const run::PlacedProgram* const program : programs) own.push_back(program->placement.device_bytes);
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
