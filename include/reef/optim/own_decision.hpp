#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/optim/detail/scalars.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/optim/views.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/step_builder.hpp>

/// \file
/// The instructions by which one copy of the model (replica) decides from its own micro-batches alone whether its step
/// counts and how the gradient is scaled (Verdict), shared by optimizer policies: `OwnNorms(b)` of gradient bucket b,
/// `OwnDecide`.

namespace reef {
inline namespace v0 {
namespace optim {

namespace detail {

/// The layout of the numbers that the stages of one copy of the model (replica) send each other for a decision, in
/// doubles, member after member:
///
///     loss weight, weight * loss, micro-batches | sums of squares of its gradients, bucket after bucket
struct ReplicaLayout {
  Group group{};
  std::vector<std::int64_t> members{0};  ///< offsets of each member's numbers, one more than there are members
  std::vector<std::int64_t> norms;       ///< offset of each bucket's sums of squares
  std::vector<std::int64_t> blocks;      ///< number of norm blocks of each bucket, each with one sum of squares

  ReplicaLayout(const run::StepPlan& plan, int replica);
};

}  // namespace detail

/// Appends the instruction `OwnNorms(b)` for each bucket that this rank's stage holds: the sums of squares of a
/// gradient, by block. Returns their values, in doubles, in the order of stage_buckets(). `gradients[b]`: the storage
/// of bucket b's gradient, of which version 0 is read; `lane`: the queue, compute or update beside it.
std::vector<run::Value> add_own_norms(run::StepBuilder& builder, const std::vector<run::StorageId>& gradients,
                                      run::Lane lane = run::Lane::compute);

/// Appends the instructions that compute the outcome of a step (Verdict) from the micro-batches of this rank's replica
/// alone, and sets builder.verdict. No message goes to other replicas.
///
///     OwnNorms(b)       sums of squares of the gradient of bucket b, block by block
///     OwnDecide         computes the Verdict of losses, loss weights and sums; on the lane of the Batches
///
/// A replica of several stages, which decide together, has two instructions instead of OwnDecide:
///
///     ReplicaScalars    its stages send each other losses, loss weights and sums; on the lane of the Batches
///     ReplicaDecide     computes the Verdict from these, in the order of OwnDecide
///
/// \code
/// // given: run::StepBuilder& builder
/// optim::add_own_decision(builder);
/// \endcode
void add_own_decision(run::StepBuilder& builder);

/// Adds the code of OwnNorms, the instruction that sums the squares of a replica's own gradient.
template <class Handlers, class RankContext>
void add_own_norms_code(Handlers& handlers, const RankContext& context) {
  handlers.on_lane(
      kinds::own_norms, [&context](const schedule::Instruction& i) -> typename Handlers::Code {
        const run::Bucket& bucket = context.plan().buckets[static_cast<std::size_t>(i.index)];
        const NormsView view(i);
        return [gradient = context.at(view.gradient.front()),
                pieces = bucket.pieces(0, bucket.size()),
                sums = context.template at<double>(view.sums.front())](
                   typename Handlers::Lane& lane) {
          detail::sum_squares(lane, gradient, pieces, sums);
        };
      });
}

/// Adds the code of the instructions by which a replica decides alone on its step: OwnNorms, OwnDecide, ReplicaScalars
/// and ReplicaDecide.
template <class Handlers, class RankContext>
void add_own_decision_code(Handlers& handlers, const RankContext& context, UpdateOptions options) {
  using T = typename RankContext::sum_type;
  add_own_norms_code(handlers, context);
  handlers.on_wire(
      kinds::own_decide,
      [&context, options](const schedule::Instruction& i) -> typename Handlers::Communication {
        const ScalarsView view(context.builder, i);
        std::vector<std::span<const double>> sums;
        for (const run::Value value : view.sums) {
          sums.push_back(context.template span<double>(value));
        }
        auto* const verdict = context.template at<Verdict>(view.result.front());
        const detail::Counts<T> micro_batches(context, view);
        return context.call("decide", [sums, verdict, options, micro_batches] {
          double counts[detail::ScalarLayout::counts] = {};
          micro_batches.write_to(counts);
          double squares = 0;
          for (const std::span<const double> blocks : sums) {
            for (const double sum : blocks) squares += sum;
          }
          *verdict = judge(counts[0], counts[1], squares, options);
          verdict->micro_batches = static_cast<std::int64_t>(counts[2]);
        });
      });

  if (context.plan().topology.stages == 1) return;
  const auto layout = std::make_shared<const detail::ReplicaLayout>(
      context.plan(), context.plan().topology.replica_of(context.rank()));
  handlers.on_wire(
      kinds::replica_scalars,
      [&context, layout](const schedule::Instruction& i) -> typename Handlers::Communication {
        const ScalarsView view(context.builder, i);
        const std::span<double> table = context.template span<double>(view.result.front());
        const auto at = static_cast<std::size_t>(layout->group.position_of(context.rank()));
        const auto begin = static_cast<std::size_t>(layout->members[at]);
        const std::span<double> own =
            table.subspan(begin, static_cast<std::size_t>(layout->members[at + 1]) - begin);
        auto gather = context.template all_gather<double>("scalars of the replica", i,
                                                          std::span<const double>(own), table);
        std::vector<std::span<const double>> sums;
        for (const run::Value value : view.sums) sums.push_back(context.template span<double>(value));
        gather.begin = [own, sums, micro_batches = detail::Counts<T>(context, view)] {
          micro_batches.write_to(own.data());
          double* to = own.data() + detail::ScalarLayout::counts;
          for (const std::span<const double> blocks : sums) {
            to = std::copy(blocks.begin(), blocks.end(), to);
          }
        };
        return gather;
      });
  handlers.on_wire(
      kinds::replica_decide,
      [&context, layout, options](const schedule::Instruction& i) -> typename Handlers::Communication {
        const DecideView view(i);
        const auto* const all = context.template at<double>(view.scalars.front());
        auto* const verdict = context.template at<Verdict>(view.verdict.front());
        return context.call("decide", [all, verdict, layout, options] {
          double counts[detail::ScalarLayout::counts] = {};
          for (std::size_t member = 0; member + 1 < layout->members.size(); ++member) {
            for (int k = 0; k < detail::ScalarLayout::counts; ++k) {
              counts[k] += all[layout->members[member] + k];
            }
          }
          double squares = 0;
          for (std::size_t b = 0; b < layout->norms.size(); ++b) {
            for (std::int64_t k = 0; k < layout->blocks[b]; ++k) squares += all[layout->norms[b] + k];
          }
          *verdict = judge(counts[0], counts[1], squares, options);
          verdict->micro_batches = static_cast<std::int64_t>(counts[2]);
        });
      });
}

}  // namespace optim
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/optim/own_decision.ipp>
#endif
