#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE StepBuilder::StepBuilder(StepBuilder&&) = default;
REEF_INLINE StepBuilder::~StepBuilder() = default;

REEF_INLINE StepBuilder::StepBuilder(const StepPlan& step_plan, int rank, Purpose step_purpose, int step_variant)
    : plan(step_plan),
      purpose(step_purpose),
      variant(step_variant),
      stage_(plan.topology.stage_of(rank)),
      segments_(plan.segments_of(stage_)),
      stage_buckets_(plan.buckets_of(stage_)) {
  program.rank = rank;
  weights.assign(plan.buckets.size(), no_storage);
  for (const std::size_t b : stage_buckets_) {
    const std::string name = std::to_string(b);
    const Bytes bytes = static_cast<Bytes>(plan.buckets[b].size()) * plan.element_bytes();
    weights[b] = program.add_storage("weights " + name, bytes, plan.place_of(b), Life::persistent);
  }
  tied_weights.assign(plan.dag->parameters.size(), no_storage);
  tied_buffer = tied_weights;
  for (const TiedCopy& tied : plan.tied_copies) {
    if (tied.stage != stage_) continue;
    const graph::Parameter& parameter = plan.dag->parameter_at(tied.parameter);
    tied_weights[static_cast<std::size_t>(tied.parameter)] =
        program.add_storage("tied weights of " + parameter.name, parameter.spec.bytes(),
                            Place::device, Life::persistent);
  }
  add_frozen();
  add_accumulators("", Life::reserved);
  counts_.resize(plan.segments.size());
  for (const int s : segments_) {
    const auto index = static_cast<std::size_t>(s);
    counts_[index] = {weights_of(plan.segments[index]).size(), gradients_of(s).size()};
  }
  reduced = accumulators[0].buckets;
  // Gradients that are rounded are folded as they would travel.
  if (plan.virtual_ranks == 1 || plan.rounds_gradients()) return;
  for (const std::size_t b : stage_buckets_) {
    reduced[b] = program.add_storage(concat("gradients of all ranks ", b), sum_bytes(b),
                                     plan.place_of(b), Life::reserved);
  }
}

REEF_INLINE void StepBuilder::keep_gradients() {
  const auto keep = [this](StorageId id) {
    if (id != no_storage) program.storages[id].life = Life::persistent;
  };
  for (const StorageId id : accumulators[0].buckets) keep(id);
  for (std::size_t use = 0; use < accumulators[0].uses.size(); ++use) {
    if (runs_use(static_cast<int>(use))) keep(accumulators[0].uses[use]);
  }
  for (int fold = 1; fold < plan.virtual_ranks; ++fold) {
    add_accumulators(concat(" of virtual rank ", fold), Life::persistent);
  }
  keeps_gradients_ = true;
}

REEF_INLINE std::vector<std::size_t> StepBuilder::buckets_of(const graph::Segment& segment) const {
  std::vector<std::size_t> buckets;
  buckets.reserve(segment.parameters.size());
  for (const int id : segment.parameters) {
    const auto p = static_cast<std::size_t>(id);
    if (tied_weights[p] != no_storage || plan.bucket_of_parameter[p] < 0) continue;
    buckets.push_back(static_cast<std::size_t>(plan.bucket_of_parameter[p]));
  }
  std::sort(buckets.begin(), buckets.end());
  buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
  return buckets;
}

REEF_INLINE std::vector<Value> StepBuilder::weights_of(const graph::Segment& segment) const {
  std::vector<Value> values;
  for (const std::size_t b : buckets_of(segment)) values.push_back({weights[b], phase.weights});
  for (const int id : tied_of(segment)) {
    const auto p = static_cast<std::size_t>(id);
    values.push_back({tied_weights[p], tied_versions.empty() ? phase.weights : tied_versions[p]});
  }
  for (const int id : frozen_of(segment)) values.push_back({frozen[static_cast<std::size_t>(id)], 0});
  return values;
}

REEF_INLINE std::vector<int> StepBuilder::tied_of(const graph::Segment& segment) const {
  std::vector<int> ids;
  for (const int id : segment.parameters) {
    if (tied_weights[static_cast<std::size_t>(id)] != no_storage) ids.push_back(id);
  }
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

REEF_INLINE std::vector<int> StepBuilder::frozen_of(const graph::Segment& segment) const {
  std::vector<int> ids;
  for (const int id : segment.parameters) {
    if (frozen[static_cast<std::size_t>(id)] != no_storage) ids.push_back(id);
  }
  return ids;
}

REEF_INLINE std::vector<Value> StepBuilder::gradients_of(int segment, int fold) const {
  std::vector<Value> values;
  const Accumulators& sums = accumulators_of(fold);
  const auto s = static_cast<std::size_t>(segment);
  if (plan.bucket_of_segment[s] >= 0) {
    const auto b = static_cast<std::size_t>(plan.bucket_of_segment[s]);
    values.push_back({sums.buckets[b], phase.gradients});
  }
  for (const int use : plan.segments[s].uses) {
    const StorageId further = sums.uses[static_cast<std::size_t>(use)];
    if (further != no_storage) values.push_back({further, phase.gradients});
  }
  return values;
}

REEF_INLINE std::vector<int> StepBuilder::tied_uses(std::size_t b) const {
  std::vector<int> uses;
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    if (plan.bucket_of_parameter[p] != static_cast<int>(b)) continue;
    const auto& of_parameter = plan.dag->parameters[p].uses;
    if (!of_parameter.empty()) {
      uses.insert(uses.end(), of_parameter.begin() + 1, of_parameter.end());
    }
  }
  return uses;
}

/// A frozen parameter lies where the first segment of the stage that uses it keeps its weights.
REEF_INLINE void StepBuilder::add_frozen() {
  frozen.assign(plan.dag->parameters.size(), no_storage);
  for (const int s : segments_) {
    const auto segment = static_cast<std::size_t>(s);
    for (const int id : plan.segments[segment].parameters) {
      const graph::Parameter& parameter = plan.dag->parameter_at(id);
      StorageId& storage = frozen[static_cast<std::size_t>(id)];
      if (!parameter.frozen || storage != no_storage) continue;
      storage = program.add_storage("frozen " + parameter.name, parameter.spec.bytes(), plan.place_of_segment(segment),
                                    Life::persistent);
    }
  }
}

REEF_INLINE void StepBuilder::add_accumulators(const std::string& whose, Life life) {
  Accumulators sums;
  sums.buckets.assign(plan.buckets.size(), no_storage);
  for (const std::size_t b : stage_buckets_) {
    sums.buckets[b] = program.add_storage(concat("gradients ", b, whose), gradient_bytes(b),
                                          plan.place_of(b), life);
  }
  sums.uses.assign(plan.dag->uses.size(), no_storage);
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    const graph::Parameter& parameter = plan.dag->parameters[p];
    if (parameter.frozen) continue;
    const auto b = static_cast<std::size_t>(plan.bucket_of_parameter[p]);
    const bool owns = plan.buckets[b].stage == stage_;
    for (std::size_t i = 1; i < parameter.uses.size(); ++i) {
      if (!owns && plan.stage_of_use(parameter.uses[i]) != stage_) continue;
      sums.uses[static_cast<std::size_t>(parameter.uses[i])] = program.add_storage(
          concat("gradient of use ", i, " of ", parameter.name, whose),
          static_cast<Bytes>(parameter.spec.shape.size()) * plan.gradient_bytes(),
          owns ? plan.place_of(b) : Place::device, life);
    }
  }
  accumulators.push_back(std::move(sums));
}

}  // namespace run
}  // namespace v0
}  // namespace reef
