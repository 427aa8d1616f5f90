#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/core/error.hpp>
#include <reef/optim/kinds.hpp>
#include <reef/run/operands.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/schedule/program.hpp>

/// \file
/// Views of instructions, one for each kind that optimizers write and whose operands are of several sorts.
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

/// `Count(j)`: adds a micro-batch to the counts. The code that writes it has set its mode.
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

/// `Norms(b)`, `OwnNorms(b)`.
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

/// The values that `Scalars` and `OwnDecide` read before the sums of squares: their Instruction::mode. The number of
/// micro-batches of these values is their Instruction::elements.
///
/// | micro_batches | losses of all micro-batches, then their weights         |
/// | folds         | of each fold what `Count` has made of its micro-batches |
/// | nothing       | this rank computes no losses                            |
enum class Counted : std::uint8_t { micro_batches, folds, nothing };

inline Counted counted_of(const schedule::Instruction& scalars) {
  return static_cast<Counted>(scalars.mode);
}

/// `Scalars`, `OwnDecide`, `ReplicaScalars`. The code that writes one has set its mode and elements.
///
///     reads    losses, loss weights, or counts: as its mode says; sums of squares of all buckets that are held, or none
///     writes   result: the scalars of all, or the Verdict
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
    if (scalars.reads.size() >= values && (sums == 0 || sums == builder.held().size())) return sums;
    throw ScheduleError(
        "reef::optim: ", scalars.text(), " reads ", scalars.reads.size(), " values, where ", values,
        " are counted and this rank holds ", builder.held().size(),
        " buckets.\n  why: its code finds counts and sums of squares by their places.\n"
        "  fix: optim::add_decision or add_own_decision once all micro-batches of the "
        "phase are written.");
  }
};

/// `Decide`, `ReplicaDecide`.
///
///     reads    the scalars of all
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

/// `Weigh`: makes the verdict of an update within a step, by the loss weights of its micro-batches alone.
///
///     reads    loss weights
///     writes   Verdict
template <class Instr>
struct WeighView {
  run::PartOf<Instr> loss_weights, verdict;

  /// Finds as many loss weights as the instruction reads; with `micro_batches` it makes room for so many.
  explicit WeighView(Instr& weigh) : WeighView(weigh, weigh.reads.size(), run::Lists::found) {}
  WeighView(Instr& weigh, std::size_t micro_batches, run::Lists lists) {
    run::Layout layout(weigh, lists);
    loss_weights = layout.reads(micro_batches);
    verdict = layout.writes(1);
  }
};

/// `Update(b)` of weights where they are, or into another version of them: optim::add_update. Rounds that overlap have
/// OutgoingView.
///
///     reads        gradient, verdict, weights before
///     writes       weights behind; of a rule that needs whole matrices what it works in
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

/// `Estimate(b)`, `Update(b)` of rounds that overlap: new weights leave, and only an Update keeps the new state.
///
///     reads                 gradient, verdict
///     writes                outgoing weights
///     reads, accumulates    the rule's states, then the master weights: reads of an Estimate
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

/// `HandOver(b)`: sends off a fold's gradient, with the gradients of further uses of its parameters.
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

/// `Differences(p)`: computes the differences of a rank's own weights from the outer ones.
///
///     reads    own weights, or the master weights if there are any; outer weights
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

/// `OuterUpdate(p)`: takes the outer rule's step of a shard.
///
///     reads        sum of the ranks' weights, or the differences of all ranks, one after the other
///     writes       outer weights in its place
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

/// `Merge(p)`: makes the weights that have arrived a rank's own, or a part of them.
///
///     reads        what has arrived, weights before
///     writes       weights behind
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

/// `OuterBegin(b)`: takes a rank's own outer step of a bucket, and sends off its differences.
///
///     reads        the pieces of the bucket, weights before
///     writes       weights behind, the pieces
///     accumulates  own states of the outer rule, start, the master weights if there are any
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
