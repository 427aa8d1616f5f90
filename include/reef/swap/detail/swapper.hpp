#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <reef/run/instructions.hpp>
#include <reef/swap/detail/swap_slots.hpp>
#include <reef/swap/detail/stasher.hpp>

namespace reef::inline v0::swap::detail {

/// Rewrites a phase of the model so that the device holds one segment after another, as
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
/// A load goes into the slot that has been used longest ago. It waits for the code that runs in
/// this slot and for the load before it. A segment that is still in a slot when the backward pass
/// reaches it is not loaded again. The last segment stays for its backward, which follows each
/// forward at once, so that its activations are kept for one micro-batch only. Weights do not
/// change on the device, so they are dropped. Gradients are summed there over the micro-batches of
/// a fold, and leave. A sum that continues an earlier one, of micro-batches before, has that one
/// loaded first.
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
      : builder_(builder), program_(builder.program), schedule_(builder.plan.swapping) {}

  void run() {
    std::vector<Instruction> written;
    written.swap(program_.round);
    reserve();
    std::vector<Instruction> fold;
    for (Instruction& instruction : written) {
      if (is_of_model(instruction)) {
        fold.push_back(std::move(instruction));
        continue;
      }
      if (instruction.lane == Lane::compute) finish(fold);
      program_.round.push_back(std::move(instruction));
    }
    finish(fold);
  }

private:
  [[nodiscard]] int segments() const { return static_cast<int>(builder_.plan.segments.size()); }
  SwapSlots& slots() { return builder_.scratch<SwapSlots>(); }

  static bool is_of_model(const Instruction& i) {
    return i.kind == "Forward" || i.kind == "Recompute" || i.kind == "Backward" ||
           i.kind == "AddGradients";
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
  template <class It>
  void replace(It begin, It end, const std::vector<Value>& parts) const {
    auto part = parts.begin();
    for (It value = begin; value != end; ++value) {
      if (swaps(*value)) *value = *part++;
    }
  }

  /// The slots are those of all phases.
  void reserve() {
    if (!slots().weights.empty()) return;
    std::vector<std::vector<Value>> weights;
    std::vector<std::vector<Value>> gradients;
    for (int s = 0; s < segments(); ++s) {
      weights.push_back(weights_of(s));
      gradients.push_back(that_swap(builder_.gradients_of(s)));
    }
    SwapSlots& made = slots();
    const int count = std::min(schedule_.slots, segments());
    made.weights = Slots(program_, count, "weights", weights);
    // One is summed in, one is copied out of, and of three slots one more.
    const int sums = std::min(count, 3);
    if (builder_.trains()) made.gradients = Slots(program_, sums, "gradients", gradients);
  }

  /// Where an instruction comes: forwards ascending, all of the last segment, backwards descending.
  [[nodiscard]] int position(const Instruction& i) const {
    const int last = segments() - 1;
    return i.kind == "Forward" || i.index == last ? i.index : 2 * last - i.index;
  }

  void finish(std::vector<Instruction>& fold) {
    if (!schedule_.per_micro_batch) {
      std::stable_sort(fold.begin(), fold.end(),
                       [this](const auto& a, const auto& b) { return position(a) < position(b); });
    }
    if (builder_.trains() && builder_.plan.stashes_some() && !fold.empty()) {
      fold = Stasher(builder_, slots()).run(std::move(fold));
    }
    for (auto i = fold.begin(); i != fold.end();) i = visit(i, fold.end());
    fold.clear();
    for (const auto& [s, parts] : slots().weights.all()) drop(s, parts);
    slots().weights.forget();
  }

  using Iterator = std::vector<Instruction>::iterator;

  /// The segment of `begin` passes: all instructions of it that follow each other. The next one's weights
  /// are loaded ahead of what else comes meanwhile.
  Iterator visit(Iterator begin, Iterator all) {
    const int s = begin->index;
    const Iterator end =
        std::find_if(begin, all, [s](const Instruction& i) { return i.index != s; });
    weights_ = bring(s);
    const auto summing =
        std::find_if(begin, end, [this](const Instruction& i) { return !sums_of(i).empty(); });
    if (summing != end) begin_sums(*summing);
    // What has been stashed is waited for at once, the next weights later.
    const Iterator first =
        std::find_if_not(begin, end, [](const Instruction& i) { return i.kind == "Restore"; });
    std::move(begin, first, std::back_inserter(program_.round));
    if (end != all) bring(end->index);
    for (Iterator i = first; i != end; ++i) {
      const std::vector<Value> sums = sums_of(*i);
      const bool last_of_sums = !sums.empty() && is_last(sums, i, end);
      if (!sums.empty()) {
        if (sums != sums_) begin_sums(*i);
        replace_gradients(*i);
      }
      if (reads_weights(*i)) {
        const std::size_t count =
            builder_.buckets_of(builder_.plan.segments[static_cast<std::size_t>(s)]).size();
        replace(i->reads.begin(), i->reads.begin() + static_cast<std::ptrdiff_t>(count), weights_);
      }
      program_.round.push_back(std::move(*i));
      if (last_of_sums) evict(s);
    }
    write_back(s);
    return end;
  }

  /// Weights come first among what it reads.
  static bool reads_weights(const Instruction& i) {
    return i.kind == "Forward" || i.kind == "Recompute" || i.kind == "Backward";
  }

  /// The gradients that an instruction writes or adds to.
  [[nodiscard]] std::vector<Value> sums_of(const Instruction& i) const {
    if (i.kind == "AddGradients")
      return that_swap(run::begins_sum(i) ? i.writes : i.accumulates);
    if (i.kind != "Backward" || builder_.plan.rounds_gradients()) return {};
    return that_swap(run::gradients_of(builder_, i));
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
      move("Load", Lane::load, s, weights, slots().weights.parts());
    }
    return slots().weights.parts();
  }

  /// The segment gets a slot for its gradients. What it adds to is loaded.
  void begin_sums(const Instruction& first) {
    sums_ = sums_of(first);
    slots().gradients.take(first.index);
    goes_on_ = !run::begins_sum(first);
    if (goes_on_) {
      move("LoadGradients", Lane::load, first.index, sums_, slots().gradients.parts());
    }
  }

  void evict(int s) {
    move("Evict", leaving(), s, slots().gradients.parts(), std::exchange(sums_, {}));
    Instruction& evict = program_.round.back();
    if (goes_on_) evict.accumulates.swap(evict.writes);
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
    move("WriteBack", leaving(), s, weights_, std::move(back));
    drop(s, weights_);
    slots().weights.forget(s);
  }

  void drop(int s, std::vector<Value> parts) {
    if (!builder_.plan.poisons_dead_memory || parts.empty()) return;
    program_.round.push_back(drop_of(Lane::compute, s, std::move(parts)));
  }

  void move(const char* kind, Lane lane, int s, std::vector<Value> from, std::vector<Value> to) {
    Instruction& instruction = program_.add(kind, lane, s);
    add_copies(instruction.cost, program_, from);
    instruction.reads = std::move(from);
    instruction.writes = std::move(to);
  }

  /// Gradients come last among what a Backward writes, or accumulates into; nothing else comes with them
  /// in an AddGradients.
  void replace_gradients(Instruction& i) {
    std::vector<Value>& values = run::begins_sum(i) ? i.writes : i.accumulates;
    const std::size_t count = builder_.gradients_of(i.index).size();
    replace(values.end() - static_cast<std::ptrdiff_t>(count), values.end(),
            slots().gradients.parts());
  }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  run::SwapSchedule schedule_;
  std::vector<Value> weights_;  ///< where those of the segment that passes are
  std::vector<Value> sums_;     ///< what is summed in the slot for gradients that was taken last
  bool goes_on_ = false;        ///< from sums that were loaded
};

}  // namespace reef::inline v0::swap::detail
