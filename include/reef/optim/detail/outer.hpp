#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/detail/outer_schedule.hpp>
#include <reef/optim/own_decision.hpp>
#include <reef/optim/update.hpp>
#include <reef/run/fragment.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

using run::fragment_pieces;
using Piece = run::FragmentPiece;

/// Those that lie in bucket b: their places in `pieces`.
std::vector<std::size_t> pieces_in(const std::vector<Piece>& pieces, std::size_t b);

/// Writes the programs of ranks that step on their own, and take an outer step of a fragment of the
/// weights now and then.
///
///     compute                                        source     reduce             update
///     [overlapped:  HandOut(p)     C = own          ]
///     the model's phase;  OwnNorms(b)                OwnDecide  ReduceWeights(p)
///     Update(b)                    own = inner(own)             GatherOuter(p)     OuterUpdate(p)
///     [else here:   HandOut(p)     C = own          ]
///     Merge(p)                     own = C, or a mix of both
///
/// `own` are the weights of this rank: the model's, and where those are narrower than sums, the master
/// weights. C holds the pieces of the fragment whose outer step it is: the sum of all ranks'
/// weights arrives at the owner of a shard, which subtracts it from the outer weights. Without
/// overlap C lies in the gradients' bytes, which no one needs then.
///
/// With a codec for pseudo-gradients no weights travel. Each rank keeps the outer weights whole, and takes the same
/// step:
///
///     Differences(p)  compute, in the place of HandOut     C = outer - own
///     GatherDifferences(p)  reduce, rewritten by who encodes     D = the decoded C of each rank, in the order of ranks
///     OuterUpdate(p)  update: outer = rule(outer, mean of D);  C = outer
///
/// D is of P pieces of a fragment, which share its room one after the other: a piece ends where a bucket does.
///
/// Eager rounds hand out all pieces at once, when the first leaves, and merge none:
///
///     OuterBegin(b)  compute, before the first outer step of a round; theta' = C as it has arrived
///                    delta = start - own;  start = own = outer(theta', own state, delta / P);  C = delta
///
/// What tied copies of parameters are read at is sent to them: after OuterBegin, and after Merge.
///
///     gather_committed  Publish(p): the owner's outer weights;  GatherCommitted(p);  to tied copies
///
/// What each reads, writes and accumulates into: run::CopyView of HandOut and Publish, run::CollectiveView,
/// DifferencesView, OuterUpdateView, MergeView, OuterBeginView.
class OuterProgram {
public:
  OuterProgram(run::StepBuilder& builder, int inner_states, int outer_states)
      : builder_(builder),
        program_(builder.program),
        plan_(builder.plan),
        pieces_(fragment_pieces(builder.plan, builder.rank())),
        inner_states_(inner_states),
        outer_states_(outer_states) {}

  /// What outlives a round.
  static void reserve(run::StepBuilder& builder, int inner_states, int outer_states);

  static std::vector<StateRange> state(const run::StepBuilder& builder, int inner_states,
                                       int outer_states);

  void add(const run::Pass& model);

private:
  /// "outer.state.0", ..., "outer": the last are the weights.
  static std::string outer_name(int kept, int states) {
    return kept < states ? concat("outer.state.", kept) : "outer";
  }
  static std::string outer_storage(int kept, int states, std::size_t p) {
    return concat(outer_name(kept, states), " of piece ", p);
  }

  /// Of eager rounds, this rank's own outer step: where it went to, and the rule's states.
  static std::string own_storage(int kept, int states, std::size_t b) {
    return concat(kept < states ? "own " + outer_name(kept, states) : "start", " of weights ", b);
  }
  static std::string leaving_name(std::size_t p) { return concat("leaving piece ", p); }

  [[nodiscard]] bool eager() const {
    return plan_.outer_schedule.overlap == run::OuterSchedule::Overlap::eager;
  }

  /// The pieces of the fragment whose outer step this program takes.
  template <class F>
  void each_piece(const F& f) const {
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      if (pieces_[p].fragment + 1 == builder_.variant) f(p);
    }
  }

  /// The collectives of all pieces stand in one order on every rank: that of the pieces.
  void step_outer();

  void name_storages(std::size_t p);

  void hand_out(std::size_t p);

  void take_difference(std::size_t p);

  void gather_differences(std::size_t p);

  void begin_outer_round(std::size_t b);

  void reduce(std::size_t p);

  void update(std::size_t p);

  void gather(std::size_t p);

  void merge(std::size_t p);

  /// The outer weights as the model's, in builder.comm_buffer.
  void gather_committed();

  /// This rank's weights of a bucket, as exact as it has them.
  [[nodiscard]] run::StorageId own(std::size_t b) const {
    return plan_.keeps_master() ? find(program_, storage_name(inner_states_, inner_states_, b))
                                : builder_.weights[b];
  }
  [[nodiscard]] Bytes bytes_of(std::int64_t elements) const {
    return static_cast<Bytes>(elements) * plan_.sum_bytes();
  }
  run::Instruction& add(std::string_view kind, run::Lane lane, std::size_t p) {
    return program_.add(kind, lane, static_cast<int>(p));
  }
  std::uint32_t channel() { return run::first_optimizer_channel + next_channel_++; }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  const run::StepPlan& plan_;
  std::vector<Piece> pieces_;
  int inner_states_;
  int outer_states_;
  int own_version_ = 0;                  ///< of the model's weights, at this place of the program
  int leaving_version_ = 0;              ///< of C, before it is sent
  std::vector<run::StorageId> leaving_;  ///< by piece: C
  std::vector<run::StorageId> shards_;   ///< this rank's shard of it
  std::vector<run::StorageId> sums_;     ///< what its outer step reads: the shard, or the differences of all ranks
  std::uint32_t next_channel_ = 0;
};

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/optim/detail/outer.ipp>
#endif
