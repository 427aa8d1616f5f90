#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/optim/detail/scalars.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/optim/views.hpp>
#include <reef/run/step_builder.hpp>

/// \file
/// How a rank comes to a Verdict of its own, for optimizer policies to share: `OwnNorms(b)`, `OwnDecide`.

namespace reef::inline v0::optim {

/// Appends what ends in this rank's own Verdict on its micro-batches, and sets builder.verdict. Nobody
/// is told.
///
///     OwnNorms(b)   sums of squares of the gradient of bucket b, block by block
///     OwnDecide     folds losses, loss weights and sums; behind the Batches, not behind messages
///
/// \code
/// // given: run::StepBuilder& builder
/// optim::add_own_decision(builder);
/// \endcode
inline void add_own_decision(run::StepBuilder& builder) {
  using run::Place;
  schedule::Program& program = builder.program;
  std::vector<run::Value> sums;
  for (const std::size_t b : builder.held()) {
    const run::Bucket& bucket = builder.plan.buckets[b];
    const std::int64_t blocks = run::norm_blocks(bucket.pieces(0, bucket.size()));
    sums.push_back({program.add_storage(concat("sums of squares ", b),
                                        static_cast<Bytes>(blocks) * sizeof(double), Place::device),
                    0});
    schedule::Instruction& norms = program.add(kinds::own_norms, run::Lane::compute, static_cast<int>(b));
    const NormsView view(norms, run::Lists::added);
    view.gradient.front() = {builder.reduced[b], 0};
    view.sums.front() = sums.back();
    norms.cost.bytes = builder.sum_bytes(b);
  }
  builder.verdict = program.add_storage("verdict", sizeof(Verdict), Place::host);
  schedule::Instruction& decide = program.add(kinds::own_decide, run::Lane::source);
  detail::count_micro_batches(decide, builder);
  const ScalarsView view(builder, decide, sums.size(), run::Lists::added);
  detail::read_losses(view, builder);
  view.sums.set(sums);
  view.result.front() = {builder.verdict, 0};
}

/// Adds the code of OwnNorms and OwnDecide.
template <class Handlers, class RankContext>
void add_own_decision_code(Handlers& handlers, const RankContext& context, UpdateOptions options) {
  using T = typename RankContext::sum_type;
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
}

}  // namespace reef::inline v0::optim
