#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/views.hpp>
#include <reef/swap/detail/swap_slots.hpp>
#include <reef/swap/kinds.hpp>

namespace reef::inline v0::swap::detail {

/// Brings what is kept of segments that stash to host memory, between their forward and their backward:
/// the saved activations, or where it is recomputed what that reads.
///
///     Forward(s, j)  Stash(s, j)      ...      Restore(s, j)  [Recompute(s, j)]  Backward(s, j)
///
/// A tensor that crosses bounds stays on the device if the backward of a segment reads it that does not
/// stash. For others there are slots, as many as are read at once and SwapSchedule::stash_slots
/// more, which leave meanwhile; and stash_slots each for saved activations and for what has come
/// back. Who writes a slot waits for what is copied out of it, so that memory does not grow with
/// the number of segments.
///
/// | Stash   | reads what the forward has written and a backward reads, writes as many bytes of |
/// |         | the host                                                                         |
/// | Restore | the other way, for one backward. The first of a segment come ahead of the next   |
/// |         | weights                                                                          |
/// | Drop    | where the plan has them: of saved activations behind their Stash, of what came   |
/// |         | back behind a backward                                                           |
class Stasher {
public:
  Stasher(run::StepBuilder& builder, SwapSlots& slots)
      : builder_(builder), program_(builder.program), slots_(slots) {
    for (int s = 0; s < last(); ++s) {
      const std::vector<int> tensors = needs(s);
      (stashes(s) ? stashed_ : staying_).insert(tensors.begin(), tensors.end());
    }
    if (slots_.crossing.empty()) reserve();
  }

  /// `model`: in the order in which it is to run.
  std::vector<Instruction> run(std::vector<Instruction> model) {
    std::vector<Instruction> result;
    for (auto i = model.begin(); i != model.end();) {
      if (i->kind == run::kinds::forward) {
        forward(result, std::move(*i++));
        continue;
      }
      const int s = i->index;
      const auto end = std::find_if(i, model.end(), [s](const Instruction& other) {
        return other.kind == run::kinds::forward || other.index != s;
      });
      backwards(result, i, end);
      i = end;
    }
    return result;
  }

private:
  using Places = std::map<StorageId, Value>;
  using Iterator = std::vector<Instruction>::iterator;
  using MicroBatch = run::StepBuilder::MicroBatch;

  [[nodiscard]] int last() const { return static_cast<int>(builder_.plan.segments.size()) - 1; }
  [[nodiscard]] const graph::Segment& segment(int s) const {
    return builder_.plan.segments[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] bool recomputes(int s) const {
    return builder_.plan.recomputes_segment(static_cast<std::size_t>(s));
  }
  [[nodiscard]] bool stashes(int s) const {
    return builder_.plan.stashes_segment(static_cast<std::size_t>(s));
  }
  [[nodiscard]] bool saved_leaves(int s) const {
    return stashes(s) && !recomputes(s) && segment(s).saved_bytes > 0;
  }
  [[nodiscard]] const MicroBatch& batch(int j) const {
    return builder_.micro_batches[static_cast<std::size_t>(j)];
  }

  /// What a backward reads that a forward has made: tensors that cross bounds.
  [[nodiscard]] std::vector<int> needs(int s) const {
    const graph::Segment& of = segment(s);
    std::set<int> tensors;
    for (const int t : of.backward_reads) {
      const int producer = builder_.plan.dag->tensor_at(t).producer;
      if (producer >= 0 && !(recomputes(s) && producer >= of.first)) tensors.insert(t);
    }
    for (const int t : of.recompute_reads) {
      if (recomputes(s) && builder_.plan.dag->tensor_at(t).producer >= 0) tensors.insert(t);
    }
    return {tensors.begin(), tensors.end()};
  }

  /// The same as storages of a micro-batch, but what stays; with the saved storage where that is
  /// kept.
  [[nodiscard]] std::vector<Value> kept(int s, const MicroBatch& of) const {
    std::vector<Value> values;
    for (const int t : needs(s)) {
      if (!staying_.contains(t)) values.push_back({of.tensors[static_cast<std::size_t>(t)], 0});
    }
    if (saved_leaves(s)) values.push_back({of.saved[static_cast<std::size_t>(s)], 0});
    return values;
  }
  [[nodiscard]] std::vector<Value> outputs(int s, const MicroBatch& of) const {
    std::vector<Value> values;
    for (const int t : segment(s).boundary_outputs) {
      if (!staying_.contains(t)) values.push_back({of.tensors[static_cast<std::size_t>(t)], 0});
    }
    return values;
  }

  /// The most segments from one that makes a tensor to one that reads it.
  [[nodiscard]] int reach() const {
    const graph::Dag& dag = *builder_.plan.dag;
    const auto segment_of = [&](int node) {
      int s = 0;
      while (segment(s).last <= node) ++s;
      return s;
    };
    int most = 1;
    for (int s = 0; s < last(); ++s) {
      for (const int t : segment(s).boundary_outputs) {
        const std::vector<int>& consumers = dag.tensor_at(t).consumers;
        if (!consumers.empty()) most = std::max(most, segment_of(consumers.back()) - s);
      }
    }
    return most;
  }

  void reserve() {
    const MicroBatch& any = builder_.micro_batches.front();
    std::vector<std::vector<Value>> crossing, saved, restored;
    for (int s = 0; s < last(); ++s) {
      crossing.push_back(outputs(s, any));
      saved.emplace_back();
      if (saved_leaves(s)) saved.back().push_back({any.saved[static_cast<std::size_t>(s)], 0});
      restored.push_back(stashes(s) ? kept(s, any) : std::vector<Value>{});
    }
    const run::StepPlan& plan = builder_.plan;
    const auto [first, end] = plan.folds_of(builder_.rank());
    int together = plan.micro_batches_of(builder_.rank());
    if (!builder_.keeps_gradients()) {
      together =
          *std::max_element(plan.micro_batches.begin() + first, plan.micro_batches.begin() + end);
    }
    if (plan.swapping.per_micro_batch) together = 1;
    const int under_way = std::min(plan.swapping.stash_slots, last() * together);
    slots_.crossing = Slots(program_, reach() * together + under_way, "what crosses", crossing);
    slots_.saved = Slots(program_, under_way, "what is kept", saved);
    slots_.restored = Slots(program_, under_way, "what has come back", restored);
  }

  static void replace(const run::PartOf<Instruction>& part, const Places& places) {
    for (Value& value : part) {
      const auto found = places.find(value.storage);
      if (found != places.end()) value = found->second;
    }
  }

  void forward(std::vector<Instruction>& to, Instruction forward) {
    const int s = forward.index;
    const int j = forward.micro_batch;
    replace(run::ForwardView(builder_, forward).inputs, crossing_);
    if (s < last()) hand_on(forward);
    to.push_back(std::move(forward));
    if (s < last()) stash(to, s, j);
  }

  /// What a backward or what belongs to it reads of what forwards have made.
  void find_again(Instruction& i, const Places& places) const {
    if (i.kind == run::kinds::recompute) {
      replace(run::RecomputeView(builder_, i).inputs, places);
    } else if (i.kind == run::kinds::backward) {
      const run::BackwardView view(builder_, i);
      replace(view.tensors, places);
      replace(view.saved, places);
    }
  }

  /// Backwards of one segment, and what belongs to them: each slot has what is next.
  void backwards(std::vector<Instruction>& to, Iterator begin, Iterator end) {
    const int s = begin->index;
    std::vector<int> micro_batches;
    for (Iterator i = begin; i != end; ++i) {
      if (i == begin || i->micro_batch != micro_batches.back()) {
        micro_batches.push_back(i->micro_batch);
      }
    }
    std::size_t current = 0;
    std::size_t restored = 0;
    for (Iterator i = begin; i != end; ++i) {
      if (i->micro_batch != micro_batches[current]) drop_restored(to, s, micro_batches[current++]);
      while (stashes(s) && restored < micro_batches.size() &&
             restored < current + slots_.restored.size()) {
        restore(to, s, micro_batches[restored++]);
      }
      find_again(*i, stashes(s) ? restored_[i->micro_batch] : crossing_);
      to.push_back(std::move(*i));
    }
    drop_restored(to, s, micro_batches[current]);
  }

  void drop_restored(std::vector<Instruction>& to, int s, int j) {
    if (!stashes(s)) return;
    std::vector<Value> parts;
    for (const auto& [storage, place] : restored_[j]) parts.push_back(place);
    drop(to, Lane::compute, s, j, std::move(parts));
  }

  void drop(std::vector<Instruction>& to, Lane lane, int s, int j, std::vector<Value> parts) const {
    if (!builder_.plan.poisons_dead_memory || parts.empty()) return;
    to.push_back(drop_of(lane, s, std::move(parts)));
    to.back().micro_batch = j;
  }

  /// A forward writes to slots.
  void hand_on(Instruction& forward) {
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

  [[nodiscard]] Value stashed(Value value) {
    const auto [entry, is_new] = slots_.stashed.try_emplace(value.storage);
    if (is_new) {
      const schedule::Storage storage = program_.storages[value.storage];
      entry->second = {
          program_.add_storage(concat(storage.name, ", stashed"), storage.bytes, Place::host), 0};
    }
    return entry->second;
  }

  void stash(std::vector<Instruction>& to, int s, int j) {
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

  void restore(std::vector<Instruction>& to, int s, int j) {
    Instruction restore;
    restore.kind = kinds::restore;
    restore.lane = Lane::load;
    slots_.restored.take(s);
    Places& places = restored_[j];
    places.clear();
    const std::vector<Value> values = kept(s, batch(j));
    for (std::size_t k = 0; k < values.size(); ++k) {
      run::add_copied(restore, stashed(values[k]), slots_.restored.parts()[k]);
      places[values[k].storage] = slots_.restored.parts()[k];
    }
    push(to, std::move(restore), s, j);
  }

  void push(std::vector<Instruction>& to, Instruction instruction, int s, int j) const {
    if (instruction.reads.empty()) return;
    instruction.index = s;
    instruction.micro_batch = j;
    add_copies(instruction.cost, program_, instruction.reads);
    to.push_back(std::move(instruction));
  }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  SwapSlots& slots_;
  std::set<int> staying_;  ///< tensors that the backward of a segment reads on the device
  std::set<int> stashed_;  ///< and those that one reads which stashes
  Places crossing_;        ///< of storages: where the last forwards have written them
  std::map<int, Places> restored_{};  ///< and by micro-batch, for the backward that comes
};

}  // namespace reef::inline v0::swap::detail
