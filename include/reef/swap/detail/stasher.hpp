#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include <reef/run/step_builder.hpp>
#include <reef/run/views.hpp>
#include <reef/swap/detail/swap_slots.hpp>
#include <reef/swap/kinds.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

/// Brings what is kept of segments that stash to host memory, between their forward and their backward:
/// the saved activations, or where it is recomputed what that reads.
///
///     Forward(s, j)  Stash(s, j)      ...      Restore(s, j)  [Recompute(s, j)]  Backward(s, j)
///
/// A tensor that crosses bounds stays on the device if the backward of a segment reads it that does not stash, if
/// another chunk of the stage reads it, or if it has arrived from another stage. For others there are slots, as many as
/// are read at once and SwapSchedule::stash_slots more, which leave meanwhile; and stash_slots each for saved
/// activations and for what has come back. Who writes a slot waits for what is copied out of it, so that memory does
/// not grow with the number of segments.
///
/// | Stash   | reads what the forward has written and a backward reads, writes as many bytes of |
/// |         | the host                                                                         |
/// | Restore | the other way, for one backward, or a half: saved activations for both halves at |
/// |         | once. The first of a segment come ahead of the next weights                      |
/// | Drop    | where the plan has them: of saved activations behind their Stash, of what came   |
/// |         | back behind a backward                                                           |
class Stasher {
public:
  Stasher(run::StepBuilder& builder, SwapSlots& swap_slots);

  /// `model`: in the order in which it is to run.
  std::vector<Instruction> run(std::vector<Instruction> model);

private:
  using LatestValues = std::map<StorageId, Value>;
  using Iterator = std::vector<Instruction>::iterator;
  using MicroBatch = run::StepBuilder::MicroBatch;

  [[nodiscard]] const graph::Segment& segment(int s) const {
    return builder_.plan.segments[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] int chunk_of(int s) const {
    return builder_.plan.chunk_of_segment[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] bool is_here(int s) const {
    return builder_.plan.stage_of_segment[static_cast<std::size_t>(s)] == builder_.stage();
  }
  [[nodiscard]] int segment_of(int node) const;
  /// A forward of this stage makes it.
  [[nodiscard]] bool is_made_here(int tensor) const;
  /// All but a last one whose backward comes at once.
  [[nodiscard]] bool may_stash(int s) const {
    return std::find(segments_.begin(), segments_.end(), s) != segments_.end();
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

  /// What a backward reads that a forward of this stage has made: tensors that cross bounds.
  [[nodiscard]] std::vector<int> needs(int s) const;

  /// The same as storages of a micro-batch, but what stays; with the saved storage where that is
  /// kept.
  [[nodiscard]] std::vector<Value> kept(int s, const MicroBatch& of) const;
  [[nodiscard]] std::vector<Value> outputs(int s, const MicroBatch& of) const;

  /// The most segments from one that makes a tensor to one of its chunk that reads it.
  [[nodiscard]] int reach() const;

  /// How many micro-batches pass a segment before the first of them reaches the next.
  [[nodiscard]] int micro_batches_at_once() const;

  void reserve();

  static void replace(const run::PartOf<Instruction>& part, const LatestValues& places);

  /// `begin`, and up to `end` what belongs to no segment: what another stage waits for leaves first.
  void forward(std::vector<Instruction>& to, Iterator begin, Iterator end);

  /// What belongs to no segment may read what a forward has made, or wait for it.
  void pass_on(std::vector<Instruction>& to, Instruction other) const;

  /// What a backward or what belongs to it reads of what forwards have made.
  void find_again(Instruction& i, const LatestValues& places) const;

  /// A backward with its recomputation, or a half of one.
  struct Pass {
    Iterator begin;
    int micro_batch = 0;
    graph::BackwardPart part = graph::BackwardPart::all;
    LatestValues places{};  ///< of what has come back to slots
  };

  /// Of one segment. Halves of a backward are passes apart.
  static std::vector<Pass> passes_in(Iterator begin, Iterator end);

  /// Backwards of one segment, and what belongs to them: each slot has what is next.
  void backwards(std::vector<Instruction>& to, Iterator begin, Iterator end);

  void drop_restored(std::vector<Instruction>& to, int s, const Pass& pass) const;

  void drop(std::vector<Instruction>& to, Lane lane, int s, int j, std::vector<Value> parts) const;

  /// A forward writes to slots.
  void hand_on(Instruction& forward);

  [[nodiscard]] Value stashed(Value value);

  void stash(std::vector<Instruction>& to, int s, int j);

  /// Saved activations come back for a backward in halves to a place of their own, where they stay as the input half
  /// leaves them: it may overwrite them.
  void restore(std::vector<Instruction>& to, int s, Pass& pass);

  void push(std::vector<Instruction>& to, Instruction instruction, int s, int j) const;

  run::StepBuilder& builder_;
  schedule::Program& program_;
  SwapSlots& slots_;
  std::vector<int> segments_;  ///< of this stage, that may stash
  std::vector<std::vector<int>> needs_{};  ///< by segment of these
  std::set<int> staying_;  ///< tensors that the backward of a segment reads on the device
  std::set<int> stashed_;  ///< and those that one reads which stashes
  LatestValues crossing_;  ///< of storages: where the last forwards have written them
};

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swap/detail/stasher.ipp>
#endif
