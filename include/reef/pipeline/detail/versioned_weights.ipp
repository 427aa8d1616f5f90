#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/pipeline/detail/versioned_weights.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/tied.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline::detail {

REEF_INLINE void require_drained(const run::StepPlan& plan) {
  const char* const what = "reef::pipeline: this pipeline updates within a step, but ";
  const auto drained_by = [&](int count) { return count % plan.weight_versions.every == 0; };
  if (!plan.updates_within_a_step) {
    throw OptionError(
        what,
        "this optimizer does not.\n  why: its rounds are of micro-batches at one version of the weights.\n"
        "  fix: optim::Ddp or optim::Zero1, or a pipeline that updates once a step, as pipeline::OneFOneB.");
  }
  if (plan.topology.replicas > 1 || plan.virtual_ranks > 1) {
    throw OptionError(
        what, "there are ", (std::max)(plan.topology.replicas, plan.virtual_ranks),
        " replicas.\n  why: a stage updates by its own gradients, with no one to wait for.\n"
        "  fix: one replica, or a pipeline that updates behind its micro-batches, as "
        "pipeline::OneFOneB.");
  }
  if (plan.waits_for_global_norm) {
    throw OptionError(what, "updates wait for the norm of all gradients.\n"
                      "  why: the other stages' gradients of that update are not there.\n"
                      "  fix: TrainerOptions::non_finite = NonFinite::ignore and clip_norm = 0.");
  }
  if (static_cast<int>(plan.weight_versions.kept.size()) != plan.topology.stages) {
    throw OptionError(what, "it says of ", plan.weight_versions.kept.size(),
                      " stages how many versions they keep.\n  fix: of all ", plan.topology.stages, ".");
  }
  if (plan.chunk_of_segment.back() >= plan.topology.stages) {
    throw OptionError(what, "stages have several chunks.\n  fix: one on each: stage r has chunk r.");
  }
  if (plan.timetables.unit > 1) {
    throw OptionError(what, "its units are of ", plan.timetables.unit,
                      " micro-batches.\n  why: each micro-batch has weights of its own.\n  fix: units of 1.");
  }
  if (!std::all_of(plan.micro_batches.begin(), plan.micro_batches.end(), drained_by)) {
    throw OptionError(what, "the ", plan.micro_batches.front(), " micro-batches of a step are no multiple of the ",
                      plan.weight_versions.every, " of an update.\n  fix: a multiple of ",
                      plan.weight_versions.every, ".");
  }
}

REEF_INLINE VersionedWeights::VersionedWeights(run::StepBuilder& builder, int first, int micro_batches, int fold)
    : builder_(builder),
      plan_(builder.plan),
      versions_(plan_.weight_versions),
      first_(first),
      last_(micro_batches - 1),
      fold_(fold),
      updates_(versions_.updates(micro_batches)),
      weights_(builder.weights),
      tied_weights_(builder.tied_weights),
      phase_(builder.phase) {
  rings_.resize(weights_.size());
  for (const std::size_t b : builder.stage_buckets()) {
    rings_[b] = ring(concat("weights ", b), weights_[b], versions_.kept_by(builder.stage(), micro_batches));
  }
  for (const run::TiedCopy& tied : plan_.tied_copies) {
    if (tied.stage != builder.stage()) continue;
    const auto p = static_cast<std::size_t>(tied.parameter);
    const int owner = plan_.owner_of(tied.parameter);
    const int kept = versions_.kept.at(static_cast<std::size_t>(owner));
    copies_.push_back({tied, owner, 0,
                       ring(concat("tied weights of ", plan_.dag->parameters[p].name),
                            tied_weights_[p], (std::min)(kept, newest_read(owner) + 1))});
  }
  builder_.tied_versions.assign(tied_weights_.size(), 0);
  builder_.sends_tied_weights = true;
}

REEF_INLINE VersionedWeights::~VersionedWeights() {
  builder_.weights = weights_;
  builder_.tied_weights = tied_weights_;
  builder_.tied_versions.clear();
  builder_.phase = phase_;
}

REEF_INLINE void VersionedWeights::select(int j) {
  const int version = versions_.version_of(builder_.stage(), j);
  for (const std::size_t b : builder_.stage_buckets()) {
    const run::Value weights = rings_[b].at(version);
    builder_.weights[b] = weights.storage;
    builder_.phase.weights = weights.version;
  }
  builder_.phase.gradients = j / versions_.every;
  for (Copy& copy : copies_) {
    const int needed = versions_.version_of(copy.owner, j);
    while (copy.version < needed) receive(copy, copy.ring.at(++copy.version));
    const auto p = static_cast<std::size_t>(copy.tied.parameter);
    const run::Value weights = copy.ring.at(needed);
    builder_.tied_weights[p] = weights.storage;
    builder_.tied_versions[p] = weights.version;
  }
}

REEF_INLINE void VersionedWeights::update_behind(int j) {
  if (!begins_update(j + 1)) return;
  if (!builder_.update) {
    throw ScheduleError("reef::pipeline: a stage is to update within a step, but the optimizer writes no such update.\n"
                        "  fix: an optimizer that sets StepBuilder::update, as optim::Ddp.");
  }
  const int k = j / versions_.every;
  const bool ends = k + 1 == updates_;
  run::add_folds(builder_, fold_);
  run::StepBuilder::Update update;
  update.first = first_ + k * versions_.every;
  update.count = versions_.every;
  update.weights.resize(weights_.size());
  update.target.resize(weights_.size());
  for (const std::size_t b : builder_.stage_buckets()) {
    update.weights[b] = rings_[b].at(k);
    update.target[b] = ends ? rings_[b].last(k) : rings_[b].at(k + 1);
  }
  builder_.update(builder_, update);
  for (const run::TiedCopy& tied : plan_.tied_copies) {
    if (plan_.owner_of(tied.parameter) != builder_.stage()) continue;
    if (!ends && k + 1 > newest_read(builder_.stage())) continue;  // a version that no micro-batch reads
    const auto p = static_cast<std::size_t>(tied.parameter);
    run::add_tied_copy(builder_, tied, {update.target[static_cast<std::size_t>(plan_.bucket_of_parameter[p])]}, {});
  }
  for (Copy& copy : copies_) {
    if (ends) receive(copy, copy.ring.last(newest_read(copy.owner)));
  }
}

REEF_INLINE WeightRing VersionedWeights::ring(const std::string& name, run::StorageId first, int size) {
  const Bytes bytes = builder_.program.storages[first].bytes;
  const run::Place place = builder_.program.storages[first].place;
  WeightRing result{{first}};
  while (result.size() < size) {
    result.storages.push_back(builder_.program.add_storage(
        concat("version ", result.size(), " of ", name), bytes, place));
  }
  return result;
}

}  // namespace pipeline::detail
}  // namespace v0
}  // namespace reef
