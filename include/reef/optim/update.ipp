#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/update.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

REEF_INLINE void reserve_states(run::StepBuilder& builder, int states, bool sharded) {
  const run::StepPlan& plan = builder.plan;
  for (const std::size_t b : builder.stage_buckets()) {
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

REEF_INLINE std::vector<StateRange> state_ranges(const run::StepBuilder& builder, int states,
                                                 bool sharded) {
  const run::StepPlan& plan = builder.plan;
  std::vector<StateRange> ranges;
  for (int kept = 0; kept < detail::kept_numbers(plan, states); ++kept) {
    for (const std::size_t b : builder.stage_buckets()) {
      const auto [begin, end] = detail::kept_of(plan, b, builder.rank(), sharded);
      const auto pieces = detail::kept_pieces(plan, b, kept, states, begin, end);
      const std::string name = detail::storage_name(kept, states, b);
      for (const auto& [from, to] : pieces) {
        const std::string own = pieces.size() > 1 ? detail::piece_name(name, from) : name;
        ranges.push_back({detail::find(builder.program, own), detail::kept_name(kept, states),
                          plan.buckets[b].begin + from, to - from, sum_of(plan.dag->element),
                          sharded ? StateRange::Distribution::shard : StateRange::Distribution::whole, kept == states});
      }
    }
  }
  return ranges;
}

REEF_INLINE void add_tied_ranges(std::vector<StateRange>& ranges, const run::StepBuilder& builder,
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

REEF_INLINE void add_update(run::StepBuilder& builder, std::size_t b, const UpdateOperands& operands,
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
    workspace = (std::max)(workspace, run.matrix->workspace);
    update.cost.flops += run.matrix->flops;
  }
  view.workspace.front() = {
      program.add_storage(concat("workspace of update ", b), workspace, builder.plan.place_of(b)), 0};
}

REEF_INLINE void add_update(run::StepBuilder& builder, std::size_t b, run::Value gradient,
                            run::StorageId target, int states) {
  add_update(builder, b,
             {gradient, {builder.weights[b], builder.phase.weights}, {target, builder.phase.weights + 1},
              {builder.verdict, 0}},
             states);
}

REEF_INLINE void add_updates_within(run::StepBuilder& builder, const run::StepBuilder::Update& update,
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
  for (const std::size_t b : builder.stage_buckets()) {
    add_update(builder, b,
               {{builder.reduced[b], builder.phase.gradients}, update.weights[b], update.target[b], verdict},
               states);
    program.round.back().micro_batch = last;
  }
}

}  // namespace optim
}  // namespace v0
}  // namespace reef
