#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/device/transform.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/kept.hpp>
#include <reef/optim/detail/rule_kernel.hpp>
#include <reef/optim/detail/runs.hpp>
#include <reef/optim/matrix_rule.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/optim/views.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/step_builder.hpp>

/// \file
/// The last part of optimizer policies: the state of an update rule, and `Update(b)`, the instruction that applies the
/// rule to a bucket's weights, or to this rank's shard of them.

namespace reef {
inline namespace v0 {
namespace optim {

/// Reserves memory for the states that an update rule keeps from step to step, for the weights of this rank's shards or
/// for all weights, and for master weights, if the plan keeps some (StepPlan::keeps_master).
void reserve_states(run::StepBuilder& builder, int states, bool sharded);

/// Returns the ranges of optimizer state that reserve_states has reserved, for checkpoints.
std::vector<StateRange> state_ranges(const run::StepBuilder& builder, int states,
                                     bool sharded);

/// Adds to `ranges`, for each tied weight (used by several stages) that arrives in builder.tied_buffer, a copy of
/// `ahead` with its storage and bounds, for an optimizer that computes gradients at weights ahead of the committed
/// ones.
void add_tied_ranges(std::vector<StateRange>& ranges, const run::StepBuilder& builder,
                     StateRange ahead);

/// Returns the queue of a bucket's update: weights in host memory are updated in the update queue, beside what the
/// device computes.
inline run::Lane update_lane(const run::StepBuilder& builder, std::size_t b) {
  return builder.plan.place_of(b) == run::Place::host ? run::Lane::update : run::Lane::compute;
}

/// The operands of the instruction `Update(b)`, which updates weights: those for the whole bucket b, or for this rank's
/// shard of it.
struct UpdateOperands {
  run::Value gradient;  ///< summed gradient of the weights in `target`
  run::Value weights;   ///< weights of the bucket before the update
  run::Value target;    ///< memory of the updated weights: that of the bucket, of this rank's shard of it, or another
  run::Value verdict;
};

/// Appends the instruction `Update(b)` (UpdateView), for the elements of bucket b that operands.target holds
/// (Instruction::elements).
void add_update(run::StepBuilder& builder, std::size_t b, const UpdateOperands& operands,
                int states);

/// Appends the instruction `Update(b)` that changes bucket b's weights in place, with the versions of builder.phase,
/// and by the decision in builder.verdict. `target` is the storage of the bucket's weights, or a part of it, the shard.
///
/// \code
/// // given: run::StepBuilder& builder
/// for (const std::size_t b : builder.stage_buckets()) {
///   const run::Value gradient{builder.reduced[b], 0};
///   optim::add_update(builder, b, gradient, builder.weights[b], optim::AdamW::states);
/// }
/// \endcode
void add_update(run::StepBuilder& builder, std::size_t b, run::Value gradient,
                run::StorageId target, int states);

/// Appends the updates of a pipeline that updates weights within a step: `Weigh`, which sums the loss weights of the
/// micro-batches whose gradients are applied, and an `Update(b)` of each bucket b that the stage holds, with the
/// gradients in builder.reduced.
///
/// \code
/// // given: run::StepBuilder& builder
/// builder.update = [](run::StepBuilder& step, const run::StepBuilder::Update& update) {
///   optim::add_updates_within(step, update, optim::Sgd::states);
/// };
/// \endcode
void add_updates_within(run::StepBuilder& builder, const run::StepBuilder::Update& update,
                        int states);

namespace detail {

/// Adds the code of the instruction Publish, which rounds the master weights that an owner keeps, for sending.
template <class Handlers, class RankContext>
void add_publish_code(Handlers& handlers, const RankContext& context) {
  using T = typename RankContext::element_type;
  using Lane = typename Handlers::Lane;
  handlers.on_lane(
      kinds::publish, [&context](const schedule::Instruction& i) -> typename Handlers::Code {
        const run::CopyView view(i);
        const run::Value from = view.from.front();
        return [kernel = PublishKernel<T>{context.template at<T>(view.to.front()), context.at(from)},
                n = context.elements(from)](Lane& lane) { transform_vectors<T>(lane, n, kernel); };
      });
}

}  // namespace detail

/// Adds the code of the instruction Weigh, which computes an update's factor (Verdict) from the loss weights of its
/// micro-batches.
template <class Handlers, class RankContext>
void add_weigh_code(Handlers& handlers, const RankContext& context, UpdateOptions options) {
  using T = typename RankContext::sum_type;
  handlers.on_wire(
      kinds::weigh,
      [&context, options](const schedule::Instruction& i) -> typename Handlers::Communication {
        const WeighView view(i);
        std::vector<const T*> weights;
        for (const run::Value value : view.loss_weights) weights.push_back(context.at(value));
        auto* const verdict = context.template at<Verdict>(view.verdict.front());
        return context.call("weigh", [weights, verdict, options] {
          double sum = 0;
          for (const T* const weight : weights) sum += static_cast<double>(*weight);
          *verdict = judge(sum, 0, 0, options);
        });
      });
}

/// Adds the code of the instruction Update: it applies the rule to each parameter's weights, or to whole matrices, with
/// the gradient times the verdict's scale; it does nothing if the verdict does not commit. Master weights are updated,
/// and rounded to the weights in the same pass. Where the target is another version, the weights are copied to it
/// first.
template <class Handlers, class RankContext, update_rule Rule>
void add_update_code(Handlers& handlers, const RankContext& context, Rule rule) {
  using T = typename RankContext::element_type;
  using E = typename RankContext::sum_type;
  using Lane = typename Handlers::Lane;
  handlers.on_lane(
      kinds::update, [&context, rule](const schedule::Instruction& i) -> typename Handlers::Code {
        const run::StepPlan& plan = context.plan();
        const UpdateView view(context.builder, i, Rule::states);
        const auto* const verdict = context.template at<const Verdict>(view.verdict.front());
        const std::int64_t begin = i.elements.first;
        const std::int64_t n = i.elements.second - begin;
        detail::RuleKernel<Rule, T> kernel;
        kernel.weight = context.template at<T>(view.target.front());
        kernel.g = context.at(view.gradient.front());
        for (std::size_t k = 0; k < Rule::states; ++k) kernel.state[k] = context.at(view.states[k]);
        if constexpr (detail::RuleKernel<Rule, T>::has_master) {
          kernel.master = context.at(view.master.front());
        }
        const run::WeightVersions& versions = plan.weight_versions;
        const bool within = versions.within_a_step();
        const bool other = within && view.weights.front().storage != view.target.front().storage;
        const auto before = context.memory.copy({view.target.front().storage}, {view.weights.front().storage},
                                                static_cast<Bytes>(n) * sizeof(T));
        const std::int64_t update = within ? i.micro_batch / versions.every : 0;
        void* const workspace =
            view.workspace.empty() ? nullptr : context.template at<std::byte>(view.workspace.front());
        return [runs = detail::runs_of(plan, i.index, begin, n), kernel, verdict, other, before, update, workspace,
                &state = context.state, rule](Lane& lane) mutable {
          if (other) before(lane);
          if (!verdict->commit) return;
          kernel.scale = static_cast<E>(verdict->scale);
          const std::int64_t t = state.updates + update + 1;
          detail::apply_rule<typename RankContext::device_type, T>(lane, runs, kernel, rule, t, state.learning_rate,
                                                                   workspace);
        };
      });
}

}  // namespace optim
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/optim/update.ipp>
#endif
