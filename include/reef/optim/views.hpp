#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/core/error.hpp>
#include <reef/optim/kinds.hpp>
#include <reef/run/operands.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/schedule/program.hpp>

/// \file
/// Views of instructions, which name their operands: one for each kind that optimizers append, if it has several sorts
/// of operands. In the names of instructions j is a micro-batch, b a bucket, and p a piece: the part of a fragment that
/// lies in one bucket.
///
/// \code
/// // given: schedule::Program& program, run::StorageId mine
/// for (schedule::Instruction& i : program.round) {
///   if (i.kind == optim::kinds::norms) optim::NormsView(i).gradient.front().storage = mine;
/// }
/// \endcode

namespace reef {
inline namespace v0 {
namespace optim {

/// The operands of the instruction `Count(j)`, which adds micro-batch j to the counts; its mode must be set before.
///
///     reads                 loss, loss weight
///     writes, accumulates   counts, as the mode says
template <class Instr>
struct CountView {
  run::PartOf<Instr> loss, loss_weight, counts;

  explicit CountView(Instr& count, run::Lists lists = run::Lists::found) {
    run::Layout layout(count, lists);
    loss = layout.reads(1);
    loss_weight = layout.reads(1);
    counts = layout.sums(1);
  }
};

/// The operands of the instructions `Norms(b)` and `OwnNorms(b)`, which sum the squares of the gradient of bucket b.
///
///     reads    gradient
///     writes   sums of squares, block by block
template <class Instr>
struct NormsView {
  run::PartOf<Instr> gradient, sums;

  explicit NormsView(Instr& norms, run::Lists lists = run::Lists::found) {
    run::Layout layout(norms, lists);
    gradient = layout.reads(1);
    sums = layout.writes(1);
  }
};

/// The values that the instructions `Scalars` and `OwnDecide` read before the sums of squares: their Instruction::mode.
/// The number of micro-batches of these values is their Instruction::elements.
///
/// | micro_batches | losses of all micro-batches, then their weights |
/// | folds         | the counts of each virtual rank, by `Count`     |
/// | nothing       | this rank computes no losses                    |
enum class Counted : std::uint8_t { micro_batches, folds, nothing };

inline Counted counted_of(const schedule::Instruction& scalars) {
  return static_cast<Counted>(scalars.mode);
}

/// The operands of the instructions `Scalars`, `OwnDecide` and `ReplicaScalars`, with which ranks decide on a step;
/// their mode and elements must be set before.
///
///     reads    losses and loss weights, or counts, as the mode says; sums of squares of all held buckets, or none
///     writes   result: the scalars of all ranks, or the Verdict
///
/// Throws ScheduleError unless the instruction reads these values.
template <class Instr>
struct ScalarsView {
  run::PartOf<Instr> losses, loss_weights, counts, sums, result;

  ScalarsView(const run::StepBuilder& builder, Instr& scalars)
      : ScalarsView(builder, scalars, sums_of(builder, scalars), run::Lists::found) {}
  ScalarsView(const run::StepBuilder& builder, Instr& scalars, std::size_t buckets,
              run::Lists lists) {
    run::Layout layout(scalars, lists);
    const std::size_t each = micro_batches_of(scalars);
    losses = layout.reads(each);
    loss_weights = layout.reads(each);
    counts = layout.reads(folds_of(builder, scalars));
    sums = layout.reads(buckets);
    result = layout.writes(1);
  }

private:
  static std::size_t micro_batches_of(const Instr& scalars) {
    const bool by_micro_batch = counted_of(scalars) == Counted::micro_batches;
    return by_micro_batch ? static_cast<std::size_t>(scalars.elements.second) : 0;
  }
  static std::size_t folds_of(const run::StepBuilder& builder, const Instr& scalars) {
    const bool by_fold = counted_of(scalars) == Counted::folds;
    return by_fold ? static_cast<std::size_t>(builder.plan.virtual_ranks) : 0;
  }
  static std::size_t sums_of(const run::StepBuilder& builder, const Instr& scalars) {
    const std::size_t values = 2 * micro_batches_of(scalars) + folds_of(builder, scalars);
    const std::size_t sums = scalars.reads.size() - values;
    if (scalars.reads.size() >= values && (sums == 0 || sums == builder.stage_buckets().size())) return sums;
    throw ScheduleError(
        "reef::optim: ", scalars.text(), " reads ", scalars.reads.size(), " values, where ", values,
        " are counted and this rank holds ", builder.stage_buckets().size(),
        " buckets.\n  why: its code finds counts and sums of squares by their places.\n"
        "  fix: optim::add_decision or add_own_decision once all micro-batches of the "
        "phase are written.");
  }
};

/// The operands of the instructions `Decide` and `ReplicaDecide`, which compute the outcome of a step (Verdict).
///
///     reads    the scalars of all ranks
///     writes   Verdict
template <class Instr>
struct DecideView {
  run::PartOf<Instr> scalars, verdict;

  explicit DecideView(Instr& decide, run::Lists lists = run::Lists::found) {
    run::Layout layout(decide, lists);
    scalars = layout.reads(1);
    verdict = layout.writes(1);
  }
};

/// The operands of the instruction `Weigh`, which computes the factor of an update within a step (Verdict) from loss
/// weights alone.
///
///     reads    loss weights of the update's micro-batches
///     writes   Verdict
template <class Instr>
struct WeighView {
  run::PartOf<Instr> loss_weights, verdict;

  /// Finds the operands of an instruction by how many values it reads; the second constructor lays out `micro_batches`.
  explicit WeighView(Instr& weigh) : WeighView(weigh, weigh.reads.size(), run::Lists::found) {}
  WeighView(Instr& weigh, std::size_t micro_batches, run::Lists lists) {
    run::Layout layout(weigh, lists);
    loss_weights = layout.reads(micro_batches);
    verdict = layout.writes(1);
  }
};

/// The operands of the instruction `Update(b)` that writes bucket b's weights in place, or another version of them
/// (optim::add_update). Optimizers whose communication overlaps use OutgoingView instead.
///
///     reads        gradient, verdict, weights before the update
///     writes       weights after it; the workspace of a rule that needs whole matrices
///     accumulates  the rule's states, then the master weights if there are any
template <class Instr>
struct UpdateView {
  run::PartOf<Instr> gradient, verdict, weights, target, workspace, states, master;

  UpdateView(const run::StepBuilder& builder, Instr& update, std::size_t states_of_rule,
             run::Lists lists = run::Lists::found) {
    run::Layout layout(update, lists);
    gradient = layout.reads(1);
    verdict = layout.reads(1);
    weights = layout.reads(1);
    target = layout.writes(1);
    workspace = layout.writes(builder.plan.matrices.needed() ? 1 : 0);
    states = layout.accumulates(states_of_rule);
    master = layout.accumulates(builder.plan.keeps_master() ? 1 : 0);
  }
};

/// The operands of the instructions `Estimate(b)` and `Update(b)` of bucket b, for optimizers whose communication
/// overlaps: both write weights to be sent, but only an Update changes the rule's states.
///
///     reads                 gradient, verdict
///     writes                outgoing weights
///     reads, accumulates    the rule's states, then the master weights: read by an Estimate
template <class Instr>
struct OutgoingView {
  run::PartOf<Instr> gradient, verdict, outgoing, states, master;

  OutgoingView(const run::StepBuilder& builder, Instr& update, std::size_t states_of_rule,
               run::Lists lists = run::Lists::found) {
    const std::size_t masters = builder.plan.keeps_master() ? 1 : 0;
    const bool keeps = update.kind == kinds::update;
    run::Layout layout(update, lists);
    gradient = layout.reads(1);
    verdict = layout.reads(1);
    outgoing = layout.writes(1);
    states = keeps ? layout.accumulates(states_of_rule) : layout.reads(states_of_rule);
    master = keeps ? layout.accumulates(masters) : layout.reads(masters);
  }
};

/// The operands of the instruction `HandOver(b)`, which sums a rank's gradient of bucket b, to be sent, with the
/// gradients of further uses of the bucket's parameters.
///
///     reads    gradient of the bucket, tied_uses(b)
///     writes   their sum
template <class Instr>
struct HandOverView {
  run::PartOf<Instr> gradient, uses, sum;

  HandOverView(const run::StepBuilder& builder, Instr& hand, run::Lists lists = run::Lists::found) {
    run::Layout layout(hand, lists);
    gradient = layout.reads(1);
    uses = layout.reads(builder.tied_uses(static_cast<std::size_t>(hand.index)).size());
    sum = layout.writes(1);
  }
};

/// The operands of the instruction `Differences(p)`, which computes the differences of a rank's own weights from the
/// outer ones (DiLoCo), for piece p of the weights.
///
///     reads    own weights of the bucket, or the master weights if there are any; outer weights of the piece
///     writes   outer - own
template <class Instr>
struct DifferencesView {
  run::PartOf<Instr> own, outer, difference;

  explicit DifferencesView(Instr& take, run::Lists lists = run::Lists::found) {
    run::Layout layout(take, lists);
    own = layout.reads(1);
    outer = layout.reads(1);
    difference = layout.writes(1);
  }
};

/// The operands of the instruction `OuterUpdate(p)`, which takes the outer rule's step (DiLoCo) for piece p of the
/// weights, or for this rank's shard of it.
///
///     reads        sum of the ranks' weights, or the differences of all ranks, one after the other
///     writes       outer weights, in the place of the sum
///     accumulates  the outer rule's states, then the outer weights
template <class Instr>
struct OuterUpdateView {
  run::PartOf<Instr> sum, result, states, weights;

  OuterUpdateView(Instr& update, std::size_t states_of_rule, run::Lists lists = run::Lists::found) {
    run::Layout layout(update, lists);
    sum = layout.reads(1);
    result = layout.writes(1);
    states = layout.accumulates(states_of_rule);
    weights = layout.accumulates(1);
  }
};

/// The operands of the instruction `Merge(p)`, which replaces a rank's own weights of piece p by the outer weights
/// (DiLoCo) that have arrived, or mixes both.
///
///     reads        outer weights of the piece, which have arrived; own weights of its bucket, before
///     writes       own weights of the bucket, after
///     accumulates  the master weights if there are any
template <class Instr>
struct MergeView {
  run::PartOf<Instr> arrived, weights, merged, master;

  MergeView(const run::StepBuilder& builder, Instr& merge, run::Lists lists = run::Lists::found) {
    run::Layout layout(merge, lists);
    arrived = layout.reads(1);
    weights = layout.reads(1);
    merged = layout.writes(1);
    master = layout.accumulates(builder.plan.keeps_master() ? 1 : 0);
  }
};

/// The operands of the instruction `OuterBegin(b)`, which takes a rank's own outer step (DiLoCo) of bucket b, and
/// writes its differences, to be sent.
///
///     reads        outer weights of the bucket's pieces, which have arrived; own weights before
///     writes       own weights after; differences of the pieces, to be sent
///     accumulates  own states of the outer rule, weights at the start, the master weights if there are any
template <class Instr>
struct OuterBeginView {
  run::PartOf<Instr> arrived, weights, begun, leaving, states, start, master;

  OuterBeginView(const run::StepBuilder& builder, Instr& begin, std::size_t pieces,
                 std::size_t states_of_rule, run::Lists lists = run::Lists::found) {
    run::Layout layout(begin, lists);
    arrived = layout.reads(pieces);
    weights = layout.reads(1);
    begun = layout.writes(1);
    leaving = layout.writes(pieces);
    states = layout.accumulates(states_of_rule);
    start = layout.accumulates(1);
    master = layout.accumulates(builder.plan.keeps_master() ? 1 : 0);
  }
};

}  // namespace optim
}  // namespace v0
}  // namespace reef
