#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
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
  if (!plan_.adapts || facts_.counts_micro_batches) return {state_.micro_batch};
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
    std::vector<comm::SharedFact> mine;
    for (const graph::Parameter& parameter : plan_.dag->parameters) {
      if (!holds(parameter.name)) continue;
      mine.push_back({concat("weights of '", parameter.name, "'"),
                      concat("checksum ", model_state_->checksum(parameter.name))});
    }
    for (const StateRange& range : state_ranges()) {
      if (!range.master || range.distribution != StateRange::Distribution::whole) continue;
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

REEF_INLINE std::exception_ptr Training::difference(const std::string& what, const std::vector<comm::SharedFact>& mine,
                                                    const std::string& fix) {
  const std::string difference = comm::difference(*progress_, what, mine);
  if (difference.empty()) return {};
  return std::make_exception_ptr(OptionError("reef::Trainer: ", difference, ".\n  fix: ", fix));
}

REEF_INLINE std::exception_ptr Training::verify_together(const detail::Policies& policies,
                                                         const TrainerSettings& settings, Bytes memory_bytes,
                                                         std::span<const run::PlacedProgram* const> own) {
  std::vector<run::RankProof> said;
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
REEF_INLINE std::exception_ptr Training::require_same_plan(const detail::Policies& policies,
                                                           const TrainerSettings& settings,
                                                           std::span<const run::PlacedProgram* const> own) {
  const graph::Dag& dag = *plan_.dag;
  Hash plan;
  plan.add(graph::hash_of(dag));
  if (const auto given = graph::hash_of_given(dag)) plan.add(*given);
  plan_.topology.add_to(plan);
  policies.add_to(plan, settings);
  if (settings.network) plan.add(detail::hash_of(*settings.network));
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
  std::vector<comm::SharedFact> mine = detail::alike_of_plan(dag, settings, plan.value());
  mine.push_back({"topology", plan_.topology.text()});
  constexpr std::array<const char*, 4> axes{"optimizer", "swap policy", "pipeline policy", "compressor"};
  const std::array<std::uint64_t, 4> of_policies = policies.hashes(settings);
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    mine.push_back({concat("options of the ", axes[axis]), concat("hash ", of_policies[axis])});
  }
  if (std::exception_ptr error =
          difference("what a plan follows from", mine,
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

REEF_INLINE std::string Training::text_of(const ModelState::NotFinite& weight) const {
  if (weight.parameter < 0) return {};
  return concat("element ", weight.element, " of '", plan_.dag->parameter_at(weight.parameter).name, "' is ",
                weight.value);
}

REEF_INLINE std::pair<ModelState::NotFinite, int> Training::lowest_weight_not_finite() {
  const ModelState::NotFinite own = model_state_->weight_not_finite();
  const auto parameters = comm::gather_numbers(*progress_, "weight not finite", own.parameter);
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [](int parameter) { return parameter >= 0; });
  if (found == parameters.end()) return {{}, -1};
  const auto rank = static_cast<std::size_t>(found - parameters.begin());
  const ModelState::NotFinite first{*found, comm::gather_numbers(*progress_, "its element", own.element)[rank],
                                    comm::gather_numbers(*progress_, "its value", own.value)[rank]};
  return {first, static_cast<int>(rank)};
}

REEF_INLINE std::string Training::first_weight_not_finite() {
  const auto [first, rank] = lowest_weight_not_finite();
  return rank < 0 ? std::string{} : concat(text_of(first), " on rank ", rank);
}

REEF_INLINE std::string Training::describe_not_finite(const detail::Policies& policies, const detail::Finding& finding,
                                                      bool weighs, optim::NonFinite reaction) {
  const bool periodic = policies.periodic;
  const std::int64_t committed = state_.committed - (periodic ? 1 : 0);
  const int own_replica = plan_.topology.replica_of(rank());
  const Group asked = periodic ? plan_.topology.pipeline(own_replica) : plan_.topology.everyone();
  std::vector<int> uses{finding.use};
  std::vector<int> micro_batches{finding.micro_batch};
  if (asked.size() > 1) {
    const std::optional<Group> group = periodic ? std::optional(asked) : std::nullopt;
    uses = comm::gather_numbers(*progress_, "finding (use)", finding.use, group);
    micro_batches =
        comm::gather_numbers(*progress_, "finding (micro-batch)", finding.micro_batch, group);
  }

  if (!weighs) {
    return "reef::Trainer::step: no micro-batch of any rank has a weight, so the step has no "
           "mean.\n"
           "  fix: a source that returns more than 0 for at least one micro-batch of a step.";
  }
  std::string text =
      concat("reef::Trainer::step: the step after ", committed, " committed ones is not finite: ");
  const std::string broken =
      text_of(periodic ? model_state_->weight_not_finite() : lowest_weight_not_finite().first);
  const bool skips = reaction == optim::NonFinite::skip;
  const std::string state =
      broken.empty()
          ? concat("\n  state: the weights are those of the last committed step, and finite",
                   skips
                       ? "; the step is skipped.\n  fix: where it happens often, a lower learning rate, or clipping."
                       : ".\n  fix: a lower learning rate, clipping, or TrainerOptions::non_finite = NonFinite::skip.")
          : concat("\n  why: the weights that it began with are not finite: ", broken,
                   ".\n  state: no update of this step was committed.\n"
                   "  fix: go on from an earlier checkpoint, with a lower learning rate.");
  const auto found_by = [&](int rank) {
    const auto at = static_cast<std::size_t>(asked.position_of(rank));
    return detail::Finding{uses[at], micro_batches[at]};
  };
  for (int replica = periodic ? own_replica : 0; replica < plan_.topology.replicas; ++replica) {
    if (periodic && replica != own_replica) break;
    int r = plan_.topology.rank(replica, 0);
    for (int stage = 1; stage < plan_.topology.stages; ++stage) {
      const int other = plan_.topology.rank(replica, stage);
      if (found_by(other).comes_before(found_by(r))) r = other;
    }
    const int use = found_by(r).use;
    if (use == detail::Finding::nothing) continue;
    const std::string tensor =
        use == detail::Finding::loss
            ? "the loss"
            : "the gradient of " + plan_.dag->parameter_at(plan_.dag->use_at(use).parameter).name;
    return concat(text, tensor, " on rank ", r, ", in its micro-batch ", found_by(r).micro_batch, ".",
                  state);
  }
  text += policies.overlapping
              ? "at the committed weights every rank's own gradients are finite: their sum over "
                "ranks is not, or those at the weights ahead are not."
              : "every rank's own gradients are finite, but their sum over ranks is not.";
  return text + state;
}

}  // namespace v0
}  // namespace reef
