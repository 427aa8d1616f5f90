#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/run/views.hpp>
#include <reef/swap/detail/stasher.hpp>
#include <reef/swap/detail/swap_slots.hpp>
#include <reef/swap/kinds.hpp>
#include <reef/swap/views.hpp>

namespace reef::inline v0::swap::detail {

/// Rewrites a phase of the model, or of a stage of it, so that the device holds one segment after another, as
/// StepPlan::swapping says.
///
///     for each segment s but the last:  Load(s)   for each micro-batch j:  Forward(s, j)
///     the last, S-1:                    Load(s)   for each micro-batch j:  Forward(s, j)  Backward(s, j)
///                                       Evict(s)
///     for each other, descending:       Load(s)   for each micro-batch j:  Backward(s, j)   Evict(s)
///
/// Streaming leaves the order of the pipeline, micro-batch by micro-batch, and loads for each:
///
///     for each micro-batch j:  Load(s)  Forward(s, j), ascending
///                              Load(s)  LoadGradients(s)  Backward(s, j)  Evict(s), descending
///
/// The same under a pipeline that has an order of its own, whatever the schedule: each segment is brought for the
/// micro-batches that pass it one after another, those of a unit. What else the pipeline has written, such as transfers
/// between stages, stays where it is among forwards and backwards.
///
/// A load goes into the slot that has been used longest ago. It waits for the code that runs in
/// this slot and for the load before it. A segment that is still in a slot when the backward pass
/// reaches it is not loaded again. The last segment stays for its backward, which follows each
/// forward at once, so that its activations are kept for one micro-batch only. Weights do not
/// change on the device, so they are dropped. Gradients are summed there over the micro-batches of
/// a fold, and leave. A sum that continues an earlier one, of micro-batches before, has that one
/// loaded first.
///
/// Of a backward in halves each half brings its segment, and the second one the sums that the first one has begun.
///
/// The first SwapSchedule::resident_segments segments are on the device for good: they are neither
/// loaded nor evicted.
///
/// | Load           | reads the weights of the segment's buckets, writes their places in a slot       |
/// | LoadGradients  | reads gradients_of(segment), writes their places in a slot                       |
/// | Evict          | reads those places, writes gradients_of(segment), in its order; accumulates      |
/// |                | them where it goes on from what was there                                       |
/// | WriteBack      | reads the weights' places, writes as many bytes of host memory: as published    |
/// | Drop           | where the plan has them: writes those places when nobody reads them any more    |
/// | bits           | none change: gradients of a segment are summed in ascending micro-batch order   |
class Swapper {
public:
  explicit Swapper(run::StepBuilder& builder)
      : builder_(builder),
        program_(builder.program),
        schedule_(builder.plan.swapping),
        sorts_(!schedule_.per_micro_batch && builder.plan.topology.stages == 1 &&
               builder.plan.timetables.training.empty()) {
    for (const auto& fold : builder.accumulators) {
      all_sums_.insert(fold.buckets.begin(), fold.buckets.end());
      all_sums_.insert(fold.uses.begin(), fold.uses.end());
    }
  }

  void run();

private:
  using Operand = run::PartOf<Instruction>;

  SwapSlots& slots() { return builder_.scratch<SwapSlots>(); }

  /// Works on gradients of a fold that has ended, which have left the device.
  [[nodiscard]] bool touches_sums(const Instruction& i) const {
    const auto is_sum = [this](const Value& value) { return all_sums_.contains(value.storage); };
    return std::any_of(i.reads.begin(), i.reads.end(), is_sum) ||
           std::any_of(i.writes.begin(), i.writes.end(), is_sum) ||
           std::any_of(i.accumulates.begin(), i.accumulates.end(), is_sum);
  }

  /// What lives in host memory; what lives on the device is used where it is.
  [[nodiscard]] bool swaps(const Value& value) const {
    return program_.storages[value.storage].place == Place::host;
  }
  [[nodiscard]] std::vector<Value> that_swap(std::vector<Value> values) const {
    std::erase_if(values, [this](const Value& value) { return !swaps(value); });
    return values;
  }
  [[nodiscard]] std::vector<Value> weights_of(int s) const {
    return that_swap(builder_.weights_of(builder_.plan.segments[static_cast<std::size_t>(s)]));
  }
  /// Those of the values that swap are in `parts`, in their order.
  void replace(const Operand& operands, const std::vector<Value>& parts) const {
    auto part = parts.begin();
    for (Value& value : operands) {
      if (swaps(value)) value = *part++;
    }
  }

  /// The slots are those of all phases.
  void reserve() {
    if (!slots().weights.empty()) return;
    const std::vector<int>& own = builder_.segments();
    std::vector<std::vector<Value>> weights(builder_.plan.segments.size());
    std::vector<std::vector<Value>> gradients(weights.size());
    for (const int s : own) {
      weights[static_cast<std::size_t>(s)] = weights_of(s);
      gradients[static_cast<std::size_t>(s)] = that_swap(builder_.gradients_of(s));
    }
    SwapSlots& made = slots();
    const int count = std::min(schedule_.slots, static_cast<int>(own.size()));
    made.weights = Slots(program_, count, "weights", weights);
    // One is summed in, one is copied out of, and of three slots one more.
    const int sums = std::min(count, 3);
    if (builder_.trains()) made.gradients = Slots(program_, sums, "gradients", gradients);
  }

  /// Where an instruction comes: forwards ascending, all of the last segment, backwards descending.
  [[nodiscard]] int position(const Instruction& i) const {
    const int last = builder_.segments().back();
    return i.kind == run::kinds::forward || i.index == last ? i.index : 2 * last - i.index;
  }

  void finish(std::vector<Instruction>& fold) {
    if (sorts_) {
      std::stable_sort(fold.begin(), fold.end(),
                       [this](const auto& a, const auto& b) { return position(a) < position(b); });
    }
    if (builder_.trains() && stashes_some() && !fold.empty()) {
      fold = Stasher(builder_, slots()).run(std::move(fold));
    }
    const auto first = std::find_if(fold.begin(), fold.end(), is_of_segment);
    if (first != fold.end()) bring(first->index);
    std::move(fold.begin(), first, std::back_inserter(program_.round));
    for (auto i = first; i != fold.end();) i = visit(i, fold.end());
    fold.clear();
    for (const auto& [s, parts] : slots().weights.all()) drop(s, parts);
    slots().weights.forget();
  }

  [[nodiscard]] bool stashes_some() const {
    return std::any_of(builder_.segments().begin(), builder_.segments().end(), [this](int s) {
      return builder_.plan.stashes_segment(static_cast<std::size_t>(s));
    });
  }

  using Iterator = std::vector<Instruction>::iterator;

  /// The segment of `begin` passes: all that comes before another segment. The next one's weights are loaded ahead of
  /// what else comes meanwhile, and of what arrives for it.
  Iterator visit(Iterator begin, Iterator all) {
    const int s = begin->index;
    const Iterator end = std::find_if(
        begin, all, [s](const Instruction& i) { return is_of_segment(i) && i.index != s; });
    weights_ = bring(s);
    const auto summing =
        std::find_if(begin, end, [this](Instruction& i) { return !sums_of(i).empty(); });
    if (summing != end) begin_sums(*summing);
    // What has been stashed is waited for at once, the next weights later.
    const Iterator first =
        std::find_if_not(begin, end, [](const Instruction& i) { return i.kind == kinds::restore; });
    std::move(begin, first, std::back_inserter(program_.round));
    if (end != all) bring(end->index);
    for (Iterator i = first; i != end; ++i) {
      const std::vector<Value> sums = sums_of(*i);
      const bool last_of_sums = !sums.empty() && is_last(sums, i, end);
      if (!sums.empty()) {
        if (sums != sums_) begin_sums(*i);
        replace(gradients_in(*i), slots().gradients.parts());
      }
      replace(weights_in(*i), weights_);
      program_.round.push_back(std::move(*i));
      if (last_of_sums) evict(s);
    }
    write_back(s);
    return end;
  }

  /// The weights that an instruction reads.
  [[nodiscard]] Operand weights_in(Instruction& i) const {
    if (i.kind == run::kinds::forward) return run::ForwardView(builder_, i).weights;
    if (i.kind == run::kinds::recompute) return run::RecomputeView(builder_, i).weights;
    if (is_backward(i)) return run::BackwardView(builder_, i).weights;
    return {};
  }

  /// The fold's gradients that it writes or adds to.
  [[nodiscard]] Operand gradients_in(Instruction& i) const {
    if (i.kind == run::kinds::add_gradients) return run::AddGradientsView(builder_, i).gradients;
    if (!is_backward(i) || builder_.plan.rounds_gradients()) return {};
    return run::BackwardView(builder_, i).gradients;
  }
  [[nodiscard]] std::vector<Value> sums_of(Instruction& i) const {
    return that_swap(gradients_in(i).values());
  }

  /// Nothing adds to those sums before the segment has passed.
  bool is_last(const std::vector<Value>& sums, Iterator i, Iterator end) const {
    for (++i; i != end; ++i) {
      const std::vector<Value> next = sums_of(*i);
      if (!next.empty()) return next != sums;
    }
    return true;
  }

  /// Where the weights of a segment are that swap.
  std::vector<Value> bring(int s) {
    const std::vector<Value> weights = weights_of(s);
    if (weights.empty()) return {};
    if (!slots().weights.find(s)) {
      const auto [before, left] = slots().weights.take(s);
      drop(before, left);
      move(kinds::load, Lane::load, s, weights, slots().weights.parts());
    }
    return slots().weights.parts();
  }

  /// The segment gets a slot for its gradients. What it adds to is loaded.
  void begin_sums(Instruction& first) {
    sums_ = sums_of(first);
    slots().gradients.take(first.index);
    goes_on_ = !run::begins_sum(first) || adds_to_other_half(first);
    if (goes_on_) {
      move(kinds::load_gradients, Lane::load, first.index, sums_, slots().gradients.parts());
    }
  }

  /// The half before has begun the sums.
  [[nodiscard]] bool adds_to_other_half(Instruction& i) const {
    if (run::backward_part(i.kind) != graph::BackwardPart::weight) return false;
    return run::BackwardView(builder_, i).segment().input_half_has_parameters;
  }

  void evict(int s) {
    const std::vector<Value> sums = std::exchange(sums_, {});
    Instruction& evict = program_.add(kinds::evict, leaving(), s);
    const EvictView view(evict, sums.size(), goes_on_, run::Lists::added);
    view.from.set(slots().gradients.parts());
    view.to.set(sums);
    add_copies(evict.cost, program_, evict.reads);
    // What lies between parameters of a bucket stays where it is.
    const int b = builder_.plan.bucket_of_segment[static_cast<std::size_t>(s)];
    if (b >= 0) evict.cost.copies += static_cast<int>(builder_.plan.parameters_in(b).size()) - 1;
  }

  [[nodiscard]] Lane leaving() const {
    return schedule_.copies_on_compute_lane ? Lane::compute : Lane::evict;
  }

  void write_back(int s) {
    if (!schedule_.writes_back || weights_.empty()) return;
    std::vector<Value> back;
    for (const Value& part : weights_) {
      const schedule::Storage storage = program_.storages[part.storage];
      back.push_back(
          {program_.add_storage(storage.name + ", written back", storage.bytes, Place::host), 0});
    }
    move(kinds::write_back, leaving(), s, weights_, back);
    drop(s, weights_);
    slots().weights.forget(s);
  }

  void drop(int s, std::vector<Value> parts) {
    if (!builder_.plan.poisons_dead_memory || parts.empty()) return;
    program_.round.push_back(drop_of(Lane::compute, s, std::move(parts)));
  }

  void move(std::string_view kind, Lane lane, int s, const std::vector<Value>& from,
            const std::vector<Value>& to) {
    Instruction& instruction = program_.add(kind, lane, s);
    run::CopyView(instruction, from, to);
    add_copies(instruction.cost, program_, from);
  }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  run::SwapSchedule schedule_;
  bool sorts_;                      ///< all micro-batches of a fold through each segment; else as the pipeline has them
  std::set<StorageId> all_sums_{};  ///< of gradients, of all folds
  std::vector<Value> weights_;  ///< where those of the segment that passes are
  std::vector<Value> sums_;     ///< what is summed in the slot for gradients that was taken last
  bool goes_on_ = false;        ///< from sums that were loaded
};

}  // namespace reef::inline v0::swap::detail

#ifndef REEF_COMPILED
#include <reef/swap/detail/swapper.ipp>
#endif
