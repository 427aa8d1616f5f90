#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
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
/// The end that optimizer policies share: the state of an update rule, and `Update(b)`, the
/// instruction that applies the rule to a bucket's weights, or to this rank's shard of them.

namespace reef::inline v0::optim {

/// Reserves what a rule keeps from step to step, for the weights of this rank's shards or for all weights: the
/// rule's states and, where the plan keeps them (StepPlan::keeps_master), master weights.
inline void reserve_states(run::StepBuilder& builder, int states, bool sharded) {
  const run::StepPlan& plan = builder.plan;
  for (const std::size_t b : builder.held()) {
    const auto [begin, end] = detail::kept_of(plan, b, builder.rank(), sharded);
    for (int kept = 0; kept < detail::kept_numbers(plan, states); ++kept) {
      const auto pieces = detail::kept_pieces(plan, b, kept, states, begin, end);
      const auto bytes = [&](std::int64_t elements) { return static_cast<Bytes>(elements) * plan.sum_bytes(); };
      std::int64_t elements = 0;
      for (const auto& [from, to] : pieces) elements += to - from;
      const std::string name = detail::storage_name(kept, states, b);
      const run::StorageId whole =
          builder.program.add_storage(name, bytes(elements), plan.place_of(b), run::Life::persistent);
      std::int64_t at = 0;
      for (const auto& [from, to] : pieces) {
        if (pieces.size() > 1) {
          builder.program.add_part(detail::piece_name(name, from), whole, bytes(at), bytes(to - from));
        }
        at += to - from;
      }
    }
  }
}

/// The ranges of state that reserve_states has reserved, for checkpoints.
inline std::vector<StateRange> state_ranges(const run::StepBuilder& builder, int states,
                                            bool sharded) {
  const run::StepPlan& plan = builder.plan;
  std::vector<StateRange> ranges;
  for (int kept = 0; kept < detail::kept_numbers(plan, states); ++kept) {
    for (const std::size_t b : builder.held()) {
      const auto [begin, end] = detail::kept_of(plan, b, builder.rank(), sharded);
      const auto pieces = detail::kept_pieces(plan, b, kept, states, begin, end);
      const std::string name = detail::storage_name(kept, states, b);
      for (const auto& [from, to] : pieces) {
        const std::string own = pieces.size() > 1 ? detail::piece_name(name, from) : name;
        ranges.push_back({detail::find(builder.program, own), detail::kept_name(kept, states),
                          plan.buckets[b].begin + from, to - from, sum_of(plan.dag->element),
                          sharded ? StateRange::Kept::shard : StateRange::Kept::whole, kept == states});
      }
    }
  }
  return ranges;
}

/// Of an optimizer that trains ahead of its committed weights: what arrives in builder.tied_buffer, as ranges like `ahead`.
inline void add_tied_ranges(std::vector<StateRange>& ranges, const run::StepBuilder& builder,
                            StateRange ahead) {
  ahead.element = builder.plan.dag->element;
  ahead.copy = true;
  for (std::size_t p = 0; p < builder.tied_buffer.size(); ++p) {
    if (builder.tied_buffer[p] == run::no_storage) continue;
    ahead.storage = builder.tied_buffer[p];
    ahead.begin = builder.plan.layout.parameters[p];
    ahead.elements = builder.plan.dag->parameters[p].spec.shape.size();
    ranges.push_back(ahead);
  }
}

/// Weights that live in host memory are updated beside what the device computes.
inline run::Lane update_lane(const run::StepBuilder& builder, std::size_t b) {
  return builder.plan.place_of(b) == run::Place::host ? run::Lane::update : run::Lane::compute;
}

/// What an `Update(b)` is of: the whole bucket, or this rank's shard.
struct UpdateOperands {
  run::Value gradient;   ///< summed, of the same elements
  run::Value weights;    ///< of the bucket, before
  run::Value target;     ///< behind: of the bucket, or the part of it that is the shard; or a storage of its own
  run::Value verdict;
};

/// Appends `Update(b)` (UpdateView), of the elements that the target has (Instruction::elements).
inline void add_update(run::StepBuilder& builder, std::size_t b, const UpdateOperands& operands,
                       int states) {
  schedule::Program& program = builder.program;
  schedule::Instruction& update =
      program.add(kinds::update, update_lane(builder, b), static_cast<int>(b));
  const UpdateView view(builder, update, static_cast<std::size_t>(states), run::Lists::added);
  view.gradient.front() = operands.gradient;
  view.verdict.front() = operands.verdict;
  view.weights.front() = operands.weights;
  view.target.front() = operands.target;
  detail::set_kept(view, builder, states, b);
  const run::StorageId target = operands.target.storage;
  update.elements = run::elements_in(builder, b, target, builder.plan.element_bytes());
  if (run::elements_in(builder, b, operands.gradient.storage, builder.plan.sum_bytes()) != update.elements) {
    throw ScheduleError("reef::optim: the update of bucket ", b, " has a gradient '",
                        program.name(operands.gradient), "' of other elements than its weights '",
                        program.storages[target].name,
                        "'.\n  fix: both of the whole bucket, or both of this rank's shard.");
  }
  const int numbers = detail::kept_numbers(builder.plan, states);
  const Bytes elements = program.storages[target].bytes / builder.plan.element_bytes();
  update.cost.bytes = program.storages[target].bytes * (builder.plan.keeps_master() ? 1 : 2) +
                      elements * builder.plan.sum_bytes() * static_cast<Bytes>(1 + 2 * numbers);
  if (!builder.plan.matrices.needed()) return;
  Bytes workspace = 0;
  for (const detail::Run& run : detail::runs_of(builder.plan, update.index, update.elements.first,
                                                update.elements.second - update.elements.first)) {
    if (!run.matrix) continue;
    workspace = std::max(workspace, run.matrix->workspace);
    update.cost.flops += run.matrix->flops;
  }
  view.workspace.front() = {
      program.add_storage(concat("workspace of update ", b), workspace, builder.plan.place_of(b)), 0};
}

/// The same of weights where they are, as of builder.phase, by builder.verdict. `target` is the storage of the
/// bucket's weights, or a part of it, the shard.
///
/// \code
/// // given: run::StepBuilder& builder
/// for (const std::size_t b : builder.held()) {
///   const run::Value gradient{builder.reduced[b], 0};
///   optim::add_update(builder, b, gradient, builder.weights[b], optim::AdamW::states);
/// }
/// \endcode
inline void add_update(run::StepBuilder& builder, std::size_t b, run::Value gradient,
                       run::StorageId target, int states) {
  add_update(builder, b,
             {gradient, {builder.weights[b], builder.phase.weights}, {target, builder.phase.weights + 1},
              {builder.verdict, 0}},
             states);
}

/// Appends the updates that a pipeline wants within a step: `Weigh`, which sums the loss weights of their
/// micro-batches, and `Update(b)` of each bucket that the stage holds, by what builder.reduced has.
///
/// \code
/// // given: run::StepBuilder& builder
/// builder.update = [](run::StepBuilder& step, const run::StepBuilder::Update& update) {
///   optim::add_updates_within(step, update, optim::Sgd::states);
/// };
/// \endcode
inline void add_updates_within(run::StepBuilder& builder, const run::StepBuilder::Update& update,
                               int states) {
  schedule::Program& program = builder.program;
  const int last = update.first + update.count - 1;
  const run::Value verdict{
      program.add_storage(concat("verdict behind micro-batch ", last), sizeof(Verdict), run::Place::host), 0};
  schedule::Instruction& weigh = program.add(kinds::weigh, run::Lane::source, -1, last);
  const WeighView view(weigh, static_cast<std::size_t>(update.count), run::Lists::added);
  for (std::size_t k = 0; k < view.loss_weights.size(); ++k) {
    const auto j = static_cast<std::size_t>(update.first) + k;
    view.loss_weights[k] = {builder.micro_batches[j].loss_weight, 0};
  }
  view.verdict.front() = verdict;
  for (const std::size_t b : builder.held()) {
    add_update(builder, b,
               {{builder.reduced[b], builder.phase.gradients}, update.weights[b], update.target[b], verdict},
               states);
    program.round.back().micro_batch = last;
  }
}

namespace detail {

/// Adds the code of Publish: the master weights that an owner keeps, rounded as they leave.
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

/// Adds the code of Weigh.
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

/// Adds the code of Update: the rule on each parameter's weights, or on whole matrices, with the gradient
/// times the verdict's scale; nothing if the verdict does not commit. Master weights are updated, and
/// rounded to the weights in the same pass. Where the target is another version, the weights are copied to it first.
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
        const T* const before =
            within ? context.template at<const T>(view.weights.front()) : kernel.weight;
        const std::int64_t update = within ? i.micro_batch / versions.every : 0;
        void* const workspace =
            view.workspace.empty() ? nullptr : context.template at<std::byte>(view.workspace.front());
        return [runs = detail::runs_of(plan, i.index, begin, n), kernel, verdict, before, n, update, workspace,
                &state = context.state, rule](Lane& lane) mutable {
          if (before != kernel.weight) {
            lane.copy(kernel.weight, before, static_cast<std::size_t>(n) * sizeof(T), device::Copy::on_device);
          }
          if (!verdict->commit) return;
          kernel.scale = static_cast<E>(verdict->scale);
          const std::int64_t t = state.updates + update + 1;
          detail::apply_rule<typename RankContext::device_type, T>(lane, runs, kernel, rule, t, state.learning_rate,
                                                                   workspace);
        };
      });
}

}  // namespace reef::inline v0::optim
