#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/trainer/detail/diagnosis.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

REEF_INLINE std::vector<int> inspected_uses(const run::StepPlan& plan, int s, graph::BackwardPart part) {
  const auto index = static_cast<std::size_t>(s);
  std::vector<int> uses(plan.segments[index].uses.rbegin(), plan.segments[index].uses.rend());
  if (part == graph::BackwardPart::all) return uses;
  std::erase_if(uses, [&](int use) {
    const graph::NodePlan& node = plan.halves[index].plan(plan.dag->use_at(use).node);
    const bool in_input_half = node.in_input_half == graph::BackwardPart::all;
    return in_input_half != (part == graph::BackwardPart::input);
  });
  return uses;
}

/// Writes a phase of the model, in which every backward is followed by `Inspect(s, j)` and
/// `Report(s, j)`, and every loss by a Report.
inline void add_inspected(run::StepBuilder& builder, const run::Pass& model) {
  schedule::Program& program = builder.program;
  const run::StepPlan& plan = builder.plan;
  std::vector<schedule::Instruction> before;
  before.swap(program.round);
  model(builder);
  std::vector<schedule::Instruction> phase;
  phase.swap(program.round);
  program.round.swap(before);

  for (schedule::Instruction& instruction : phase) {
    const bool forward = instruction.kind == run::kinds::forward;
    const graph::BackwardPart part = run::backward_part(instruction.kind);
    const bool backward = part != graph::BackwardPart::none;
    const int s = instruction.index;
    const int j = instruction.micro_batch;
    std::vector<run::Value> gradients;
    if (backward) gradients = run::BackwardView(builder, instruction).gradients.values();
    program.round.push_back(std::move(instruction));
    const bool computes_loss = forward && std::any_of(
        program.round.back().writes.begin(), program.round.back().writes.end(),
        [loss = builder.micro_batches[static_cast<std::size_t>(j)].loss](const run::Value& value) {
          return value.storage == loss;
        });
    if (computes_loss) {
      schedule::Instruction& report = program.add(kinds::report, run::Lane::reduce, -1, j);
      report.reads = {{builder.micro_batches[static_cast<std::size_t>(j)].loss, 0}};
    }
    if (!backward) continue;
    Bytes sums = 0;
    for (const int use : inspected_uses(plan, s, part)) {
      const graph::Parameter& parameter = plan.dag->parameter_at(plan.dag->use_at(use).parameter);
      sums += static_cast<Bytes>(run::norm_blocks(parameter.spec.shape.size()));
    }
    if (sums == 0) continue;
    const run::StorageId inspection = program.add_storage(
        concat("inspection ", s, " of micro-batch ", j), sums * sizeof(double), run::Place::device);
    schedule::Instruction& inspect = program.add(kinds::inspect, run::Lane::compute, s, j);
    inspect.mode = static_cast<std::uint8_t>(part);
    const InspectView view(builder, inspect, run::Lists::added);
    view.gradients.set(gradients);
    view.sums.front() = {inspection, 0};
    schedule::Instruction& report = program.add(kinds::report, run::Lane::reduce, s, j);
    report.mode = static_cast<std::uint8_t>(part);
    report.reads = {{inspection, 0}};
  }
}

REEF_INLINE void add_diagnosis(run::StepBuilder& builder, const run::Pass& model) {
  for (int phase = 0; phase < builder.plan.phases_per_step; ++phase) {
    builder.phase = {.gradients = builder.keeps_gradients() ? phase + 1 : 0, .before = phase};
    add_inspected(builder, model);
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace reef
