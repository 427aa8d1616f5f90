#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/views.hpp>
#include <reef/swap/detail/stasher.hpp>
#include <reef/swap/detail/swap_slots.hpp>
#include <reef/swap/kinds.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

REEF_INLINE Stasher::Stasher(run::StepBuilder& builder, SwapSlots& swap_slots)
    : builder_(builder),
      program_(builder.program),
      slots_(swap_slots),
      segments_(builder.segments()) {
  const run::StepPlan& plan = builder.plan;
  if (!plan.has_order()) segments_.pop_back();
  staying_.insert(plan.dag->loss);
  needs_.resize(plan.segments.size());
  for (const int s : segments_) {
    const std::vector<int>& tensors = needs_[static_cast<std::size_t>(s)] = needs(s);
    (stashes(s) ? stashed_ : staying_).insert(tensors.begin(), tensors.end());
    for (const int t : segment(s).boundary_outputs) {
      for (const int node : plan.dag->tensor_at(t).consumers) {
        const int reader = segment_of(node);
        if (is_here(reader) && chunk_of(reader) != chunk_of(s)) staying_.insert(t);
      }
    }
  }
  if (slots_.crossing.empty()) reserve();
}

REEF_INLINE std::vector<Instruction> Stasher::run(std::vector<Instruction> model) {
  std::vector<Instruction> result;
  result.reserve(2 * model.size());
  for (auto i = model.begin(); i != model.end();) {
    if (!is_of_model(*i)) {
      pass_on(result, std::move(*i++));
      continue;
    }
    if (i->kind == run::kinds::forward) {
      const auto end = std::find_if(i + 1, model.end(), is_of_model);
      forward(result, i, end);
      i = end;
      continue;
    }
    const int s = i->index;
    const auto end = std::find_if(i, model.end(), [s](const Instruction& other) {
      return is_of_model(other) && (other.kind == run::kinds::forward || other.index != s);
    });
    backwards(result, i, end);
    i = end;
  }
  return result;
}

REEF_INLINE int Stasher::segment_of(int node) const {
  int s = 0;
  while (segment(s).last <= node) ++s;
  return s;
}

REEF_INLINE bool Stasher::is_made_here(int tensor) const {
  const int producer = builder_.plan.dag->tensor_at(tensor).producer;
  return producer >= 0 && is_here(segment_of(producer));
}

REEF_INLINE std::vector<int> Stasher::needs(int s) const {
  const graph::Segment& of = segment(s);
  std::set<int> tensors;
  for (const int t : of.backward_reads) {
    const int producer = builder_.plan.dag->tensor_at(t).producer;
    if (is_made_here(t) && !(recomputes(s) && producer >= of.first)) tensors.insert(t);
  }
  for (const int t : of.recompute_reads) {
    if (recomputes(s) && is_made_here(t)) tensors.insert(t);
  }
  return {tensors.begin(), tensors.end()};
}

REEF_INLINE std::vector<Value> Stasher::kept(int s, const MicroBatch& of) const {
  std::vector<Value> values;
  for (const int t : needs_[static_cast<std::size_t>(s)]) {
    if (!staying_.contains(t)) values.push_back({of.tensors[static_cast<std::size_t>(t)], 0});
  }
  if (saved_leaves(s)) values.push_back({of.saved[static_cast<std::size_t>(s)], 0});
  return values;
}

REEF_INLINE std::vector<Value> Stasher::outputs(int s, const MicroBatch& of) const {
  std::vector<Value> values;
  for (const int t : segment(s).boundary_outputs) {
    if (!staying_.contains(t)) values.push_back({of.tensors[static_cast<std::size_t>(t)], 0});
  }
  return values;
}

REEF_INLINE int Stasher::reach() const {
  int most = 1;
  for (const int s : segments_) {
    for (const int t : segment(s).boundary_outputs) {
      for (const int node : builder_.plan.dag->tensor_at(t).consumers) {
        const int reader = segment_of(node);
        if (chunk_of(reader) == chunk_of(s)) most = (std::max)(most, reader - s);
      }
    }
  }
  return most;
}

REEF_INLINE int Stasher::micro_batches_at_once() const {
  const run::StepPlan& plan = builder_.plan;
  if (plan.has_order()) return plan.unit();
  if (plan.swapping.per_micro_batch && plan.topology.stages == 1) return 1;
  if (builder_.keeps_gradients()) return plan.micro_batches_of(builder_.rank());
  const auto [first, end] = plan.folds_of(builder_.rank());
  return *std::max_element(plan.micro_batches.begin() + first, plan.micro_batches.begin() + end);
}

REEF_INLINE void Stasher::reserve() {
  const MicroBatch& any = builder_.micro_batches.front();
  std::vector<std::vector<Value>> crossing(builder_.plan.segments.size());
  std::vector<std::vector<Value>> saved(crossing.size()), restored(crossing.size());
  for (const int s : segments_) {
    const auto index = static_cast<std::size_t>(s);
    crossing[index] = outputs(s, any);
    if (saved_leaves(s)) saved[index].push_back({any.saved[index], 0});
    if (stashes(s)) restored[index] = kept(s, any);
  }
  const int under_way = (std::min)(builder_.plan.swapping.stash_slots,
                                   static_cast<int>(segments_.size()) * micro_batches_at_once());
  slots_.crossing = Slots(program_, reach() * micro_batches_at_once() + under_way, "what crosses", crossing);
  slots_.saved = Slots(program_, under_way, "what is kept", saved);
  slots_.restored = Slots(program_, under_way, "what has come back", restored);
}

REEF_INLINE void Stasher::replace(const run::PartOf<Instruction>& part, const LatestValues& places) {
  for (Value& value : part) {
    const auto found = places.find(value.storage);
    if (found != places.end()) value = found->second;
  }
}

REEF_INLINE void Stasher::forward(std::vector<Instruction>& to, Iterator begin, Iterator end) {
  const int s = begin->index;
  const int j = begin->micro_batch;
  replace(run::ForwardView(builder_, *begin).inputs, crossing_);
  if (may_stash(s)) hand_on(*begin);
  to.push_back(std::move(*begin));
  for (Iterator i = begin + 1; i != end; ++i) pass_on(to, std::move(*i));
  if (may_stash(s)) stash(to, s, j);
}

REEF_INLINE void Stasher::pass_on(std::vector<Instruction>& to, Instruction other) const {
  for (auto* const values : {&other.reads, &other.after}) {
    for (Value& value : *values) {
      const auto found = crossing_.find(value.storage);
      if (found != crossing_.end()) value = found->second;
    }
  }
  to.push_back(std::move(other));
}

REEF_INLINE void Stasher::find_again(Instruction& i, const LatestValues& places) const {
  if (i.kind == run::kinds::recompute) {
    replace(run::RecomputeView(builder_, i).inputs, places);
  } else if (is_backward(i)) {
    const run::BackwardView view(builder_, i);
    replace(view.tensors, places);
    replace(view.saved, places);
  }
}

REEF_INLINE std::vector<Stasher::Pass> Stasher::passes_in(Iterator begin, Iterator end) {
  std::vector<Pass> passes;
  for (Iterator i = begin; i != end; ++i) {
    if (!is_of_model(*i) || i->kind == run::kinds::add_gradients) continue;
    const auto part = run::backward_part(std::find_if(i, end, is_backward)->kind);
    const bool goes_on = !passes.empty() && passes.back().micro_batch == i->micro_batch && passes.back().part == part;
    if (!goes_on) passes.push_back({i, i->micro_batch, part});
  }
  return passes;
}

REEF_INLINE void Stasher::backwards(std::vector<Instruction>& to, Iterator begin, Iterator end) {
  const int s = begin->index;
  std::vector<Pass> passes = passes_in(begin, end);
  std::size_t current = 0;
  std::size_t restored = 0;
  for (Iterator i = begin; i != end; ++i) {
    if (!is_of_model(*i)) {
      pass_on(to, std::move(*i));
      continue;
    }
    if (current + 1 < passes.size() && passes[current + 1].begin == i) drop_restored(to, s, passes[current++]);
    while (stashes(s) && restored < passes.size() && restored < current + slots_.restored.size()) {
      restore(to, s, passes[restored++]);
    }
    find_again(*i, stashes(s) ? passes[current].places : crossing_);
    to.push_back(std::move(*i));
  }
  drop_restored(to, s, passes[current]);
}

REEF_INLINE void Stasher::drop_restored(std::vector<Instruction>& to, int s, const Pass& pass) const {
  std::vector<Value> parts;
  for (const auto& [storage, place] : pass.places) parts.push_back(place);
  drop(to, Lane::compute, s, pass.micro_batch, std::move(parts));
}

REEF_INLINE void Stasher::drop(std::vector<Instruction>& to, Lane lane, int s, int j, std::vector<Value> parts) const {
  if (!builder_.plan.poisons_dead_memory || parts.empty()) return;
  to.push_back(drop_of(lane, s, std::move(parts)));
  to.back().micro_batch = j;
}

REEF_INLINE void Stasher::hand_on(Instruction& forward) {
  const int s = forward.index;
  const MicroBatch& of = batch(forward.micro_batch);
  slots_.crossing.take(s);
  const std::vector<Value> made = outputs(s, of);
  for (std::size_t k = 0; k < made.size(); ++k) {
    crossing_[made[k].storage] = slots_.crossing.parts()[k];
  }
  if (saved_leaves(s)) {
    slots_.saved.take(s);
    crossing_[of.saved[static_cast<std::size_t>(s)]] = slots_.saved.parts()[0];
  }
  const run::ForwardView view(builder_, forward);
  replace(view.outputs, crossing_);
  replace(view.saved, crossing_);
}

REEF_INLINE Value Stasher::stashed(Value value) {
  const auto [entry, is_new] = slots_.stashed.try_emplace(value.storage);
  if (is_new) {
    const schedule::Storage storage = program_.storages[value.storage];
    entry->second = {
        program_.add_storage(concat(storage.name, ", stashed"), storage.bytes, Place::host), 0};
  }
  return entry->second;
}

REEF_INLINE void Stasher::stash(std::vector<Instruction>& to, int s, int j) {
  Instruction stash;
  stash.kind = kinds::stash;
  stash.lane = builder_.plan.swapping.copies_on_compute_lane ? Lane::compute : Lane::evict;
  const auto add = [&](StorageId id) {
    run::add_copied(stash, crossing_.at(id), stashed({id, 0}));
  };
  for (const int t : segment(s).boundary_outputs) {
    const bool leaves = stashed_.contains(t) && !staying_.contains(t);
    if (leaves) add(batch(j).tensors[static_cast<std::size_t>(t)]);
  }
  const StorageId saved = batch(j).saved[static_cast<std::size_t>(s)];
  if (saved_leaves(s)) add(saved);
  const Lane lane = stash.lane;
  push(to, std::move(stash), s, j);
  if (saved_leaves(s)) drop(to, lane, s, j, {crossing_.at(saved)});
}

REEF_INLINE void Stasher::restore(std::vector<Instruction>& to, int s, Pass& pass) {
  Instruction restore;
  restore.kind = kinds::restore;
  restore.lane = Lane::load;
  slots_.restored.take(s);
  const MicroBatch& of = batch(pass.micro_batch);
  const std::vector<Value> values = kept(s, of);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const bool whole = pass.part == graph::BackwardPart::all;
    const bool stays = !whole && values[k].storage == of.saved[static_cast<std::size_t>(s)];
    if (stays && pass.part == graph::BackwardPart::weight) continue;
    const Value place = stays ? values[k] : slots_.restored.parts()[k];
    run::add_copied(restore, stashed(values[k]), place);
    if (!stays) pass.places[values[k].storage] = place;
  }
  push(to, std::move(restore), s, pass.micro_batch);
}

REEF_INLINE void Stasher::push(std::vector<Instruction>& to, Instruction instruction, int s, int j) const {
  if (!run::copies_something(instruction)) return;
  instruction.index = s;
  instruction.micro_batch = j;
  add_copies(instruction.cost, program_, instruction.reads);
  to.push_back(std::move(instruction));
}

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef
