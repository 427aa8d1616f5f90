#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/device/transform.hpp>
#include <reef/optim/detail/scalars.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/optim/views.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/step_builder.hpp>

/// \file
/// The instructions by which all ranks compute one common outcome of a step (Verdict: loss, norm, scale, whether it
/// counts), shared by optimizer policies: `Norms(b)`, `Scalars`, `Decide`.

namespace reef {
inline namespace v0 {
namespace optim {

/// Options of add_decision(), which appends the decision about a step. Without `counts`, the decision is about the
/// micro-batches that the program has so far.
struct DecisionOptions {
  /// True: gradient norms are computed beside the model, in the update queue; false: only those of buckets in host
  /// memory.
  bool beside = false;
  /// The decision has the norm of the gradient if this is true; 0 if false, or if the plan waits for no global norm.
  bool norms = true;
  bool losses = true;   ///< false: losses do not exist yet, and loss weights are read in place of losses
  /// Values of the instruction `Count`: the sums of losses and loss weights of each rank that this process stands for.
  std::vector<run::Value> counts{};
};

/// Appends the instruction `Count(j)`, which adds micro-batch j to `counts`, 3 doubles, or, if `first`, sets them to
/// its values.
void add_count(run::StepBuilder& builder, std::size_t j, run::Value counts, bool first);

/// Appends the instructions that compute the step's outcome (Verdict), and sets builder.verdict; an evaluation has no
/// Norms.
///
///     Norms(b)   sums of squares of this rank's shard of the reduced gradient, block by block
///     Scalars    all ranks send each other their losses, loss weights and sums
///     Decide     computes the Verdict from these, in one order, so that all ranks have the same bits
///
/// `gradients[b]`: the storage of bucket b's reduced gradient, whole or this rank's shard of it; version 0 is read.
///
/// \code
/// // given: run::StepBuilder& builder
/// optim::add_decision(builder, run::first_scalars_channel, builder.reduced);
/// \endcode
void add_decision(run::StepBuilder& builder, std::uint32_t channel,
                  const std::vector<run::StorageId>& gradients,
                  const DecisionOptions& about = {});

/// Adds the code of the instructions by which all ranks decide on a step: Norms, Scalars, Decide and Count.
template <class Handlers, class RankContext>
void add_decision_code(Handlers& handlers, const RankContext& context, UpdateOptions options) {
  using T = typename RankContext::sum_type;
  using Lane = typename Handlers::Lane;
  using Code = typename Handlers::Code;
  using Communication = typename Handlers::Communication;
  using schedule::Instruction;
  const bool with_norms = context.builder.trains() && context.plan().waits_for_global_norm;
  const auto layout = std::make_shared<const detail::ScalarLayout>(context.plan(), with_norms);

  handlers.on_lane(kinds::norms, [&context](const Instruction& i) -> Code {
    const run::Bucket& bucket = context.plan().buckets[static_cast<std::size_t>(i.index)];
    auto pieces = bucket.pieces_of(context.rank());
    for (auto& [begin, end] : pieces) {  // range of the bucket, then of the gradient that is read
      begin -= i.elements.first;
      end -= i.elements.first;
    }
    const NormsView view(i);
    return [gradient = context.at(view.gradient.front()), pieces = std::move(pieces),
            sums = context.template at<double>(view.sums.front())](Lane& lane) {
      detail::sum_squares(lane, gradient, pieces, sums);
    };
  });

  // Each rank writes its own numbers to their place among all before the gather.
  handlers.on_wire(kinds::scalars, [&context, layout](const Instruction& i) -> Communication {
    const auto rank = static_cast<std::size_t>(context.rank());
    const ScalarsView view(context.builder, i);
    const std::span<double> table = context.template span<double>(view.result.front());
    double* const all = table.data();
    const std::int64_t begin = layout->ranks[rank];
    const auto mine = static_cast<std::size_t>(layout->ranks[rank + 1] - begin);
    Communication gather = context.template all_gather<double>(
        "scalars", i, std::span<const double>(all + begin, mine), table);

    std::vector<const double*> counts;
    for (const run::Value value : view.counts) counts.push_back(context.template at<double>(value));
    std::optional<detail::Counts<T>> micro_batches;
    if (counted_of(i) != Counted::folds) micro_batches.emplace(context, view);
    struct Sums {
      const double* from;
      std::int64_t to;
      std::size_t blocks;
    };
    std::vector<Sums> sums;  // one for each bucket that this rank holds, in their order
    for (std::size_t k = 0; k < view.sums.size(); ++k) {
      const std::span<const double> blocks = context.template span<double>(view.sums[k]);
      sums.push_back(
          {blocks.data(), layout->norms[rank][context.builder.stage_buckets()[k]], blocks.size()});
    }
    gather.begin = [own = all + begin, all, counts, micro_batches, sums] {
      double* to = own;
      for (const double* const from : counts) {
        to = std::copy_n(from, detail::ScalarLayout::counts, to);
      }
      if (micro_batches) micro_batches->write_to(own);
      for (const Sums& s : sums) std::copy_n(s.from, s.blocks, all + s.to);
    };
    return gather;
  });

  handlers.on_lane(kinds::count, [&context](const Instruction& i) -> Code {
    const bool first = run::begins_sum(i);
    const CountView view(i);
    const detail::CountKernel<T> kernel{
        context.template at<double>(view.counts.front()),
        context.at(view.loss.front()), context.at(view.loss_weight.front()), first};
    return [kernel](Lane& lane) { transform_vectors<double>(lane, 1, kernel); };
  });

  handlers.on_wire(kinds::decide, [&context, layout, options](const Instruction& i) -> Communication {
    const DecideView view(i);
    const auto* const all = context.template at<double>(view.scalars.front());
    auto* const verdict = context.template at<Verdict>(view.verdict.front());
    const run::StepPlan& plan = context.plan();
    return context.call("decide", [all, verdict, &plan, layout, options] {
      *verdict = detail::judge_scalars(*layout, all, plan, options);
    });
  });
}

}  // namespace optim
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/optim/decision.ipp>
#endif
