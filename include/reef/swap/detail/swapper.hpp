#pragma once

#include <cstddef>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include <reef/run/views.hpp>
#include <reef/swap/detail/stasher.hpp>
#include <reef/swap/detail/swap_slots.hpp>
#include <reef/swap/kinds.hpp>
#include <reef/swap/views.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

/// Rewrites a phase of the model, or of a stage of it, so that the device holds one segment after another, as
/// StepPlan::swapping says.
///
///     for each segment s but the last:  Load(s)   for each micro-batch j:  Forward(s, j)
///     the last, S-1:                    Load(s)   for each micro-batch j:  Forward(s, j)  Backward(s, j)
///                                       Evict(s)
///     for each other, descending:       Load(s)   for each micro-batch j:  Backward(s, j)   Evict(s)
///
/// Where the pipeline updates within the step, a slot has a segment in the version that a micro-batch reads, of those
/// that lie in host memory. A fold ends with each update, and slots keep what they have.
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
/// | Load           | reads the weights of the segment's buckets, writes their places in a slot, of |
/// |                | the version that they are within the step                                     |
/// | LoadGradients  | reads gradients_of(segment), writes their places in a slot                    |
/// | Evict          | reads those places, writes gradients_of(segment), in its order; accumulates   |
/// |                | them where it goes on from what was there                                     |
/// | WriteBack      | reads the weights' places, writes as many bytes of host memory: as published  |
/// | Drop           | where the plan has them: writes those places when nobody reads them any more  |
/// | bits           | none change: gradients of a segment are summed in ascending micro-batch order |
class Swapper {
public:
  explicit Swapper(run::StepBuilder& builder);

  void run();

private:
  using Operand = run::PartOf<Instruction>;

  SwapSlots& swap_slots() { return builder_.scratch<SwapSlots>(); }

  /// Works on gradients of a fold that has ended, or waits for them: they have left the device.
  [[nodiscard]] bool touches_sums(const Instruction& i) const;

  /// What lives in host memory; what lives on the device is used where it is.
  [[nodiscard]] bool swaps(const Value& value) const {
    return program_.storages[value.storage].place == Place::host;
  }
  [[nodiscard]] std::vector<Value> that_swap(std::vector<Value> values) const;
  [[nodiscard]] std::vector<Value> weights_of(int s) const {
    return that_swap(builder_.weights_of(builder_.plan.segments[static_cast<std::size_t>(s)]));
  }
  /// Those of the values that swap are in `parts`, in their order.
  void replace(const Operand& operands, const std::vector<Value>& parts) const;

  /// The slots are those of all phases.
  void reserve();

  /// Where an instruction comes: forwards ascending, all of the last segment, backwards descending.
  [[nodiscard]] int position(const Instruction& i) const;

  void finish(std::vector<Instruction>& fold);

  /// No pass that is written now reads what the slots have.
  void leave();

  [[nodiscard]] bool stashes_some() const;

  using Iterator = std::vector<Instruction>::iterator;

  /// What a micro-batch reads of the weights that the stage holds.
  [[nodiscard]] int version_of(const Instruction& i) const;

  /// Where the pass of `begin`'s segment ends: before another segment, or another version of its weights.
  [[nodiscard]] Iterator end_of_pass(Iterator begin, Iterator all) const;

  /// The segment of `begin` passes. The next one's weights are loaded ahead of what else comes meanwhile, and of what
  /// arrives for it.
  Iterator visit(Iterator begin, Iterator all);

  /// The weights that an instruction reads.
  [[nodiscard]] Operand weights_in(Instruction& i) const;

  /// The fold's gradients that it writes or adds to.
  [[nodiscard]] Operand gradients_in(Instruction& i) const;
  [[nodiscard]] std::vector<Value> sums_of(Instruction& i) const {
    return that_swap(gradients_in(i).values());
  }

  /// Nothing adds to those sums before the segment has passed.
  bool is_last(const std::vector<Value>& sums, Iterator i, Iterator end) const;

  /// Where the weights are that the pass of `begin` reads, of those that swap: as its first reader names them.
  std::vector<Value> bring(Iterator begin, Iterator all);

  /// The segment gets a slot for its gradients. What it adds to is loaded.
  void begin_sums(Instruction& first);

  /// The half before has begun the sums.
  [[nodiscard]] bool adds_to_other_half(Instruction& i) const;

  void evict(int s);

  [[nodiscard]] Lane leaving() const {
    return schedule_.copies_on_compute_lane ? Lane::compute : Lane::evict;
  }

  void write_back(int s, int version);

  void drop(int s, std::vector<Value> parts);

  void move(std::string_view kind, Lane lane, int s, const std::vector<Value>& from,
            const std::vector<Value>& to);

  run::StepBuilder& builder_;
  schedule::Program& program_;
  run::SwapSchedule schedule_;
  bool sorts_;                      ///< all micro-batches of a fold through each segment; else as the pipeline has them
  std::set<StorageId> all_sums_{};  ///< of gradients, of all folds
  std::vector<Value> weights_;  ///< where those of the segment that passes are
  std::vector<Value> sums_;     ///< what is summed in the slot for gradients that was taken last
  bool goes_on_ = false;        ///< from sums that were loaded
};

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swap/detail/swapper.ipp>
#endif
