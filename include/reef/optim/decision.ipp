#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/decision.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

REEF_INLINE void add_count(run::StepBuilder& builder, std::size_t j, run::Value counts, bool first) {
  const auto& storages = builder.micro_batches[j];
  schedule::Instruction& count =
      builder.program.add(kinds::count, run::Lane::compute, -1, static_cast<int>(j));
  run::set_sum_mode(count, first);
  const CountView view(count, run::Lists::added);
  view.loss.front() = {storages.loss, 0};
  view.loss_weight.front() = {storages.loss_weight, 0};
  view.counts.front() = counts;
}

REEF_INLINE void add_decision(run::StepBuilder& builder, std::uint32_t channel,
                              const std::vector<run::StorageId>& gradients,
                              const DecisionOptions& about) {
  using run::Lane;
  using run::Place;
  const run::StepPlan& plan = builder.plan;
  schedule::Program& program = builder.program;
  const bool norms = builder.trains() && about.norms && plan.waits_for_global_norm;
  std::vector<run::Value> sums;
  for (const std::size_t b : builder.stage_buckets()) {
    if (!norms) break;
    const run::Bucket& bucket = plan.buckets[b];
    const auto blocks = static_cast<Bytes>(run::norm_blocks(bucket.pieces_of(builder.rank())));
    sums.push_back(
        {program.add_storage(concat("sums of squares ", b), blocks * sizeof(double), Place::device),
         0});
    const bool beside = about.beside || plan.place_of(b) == Place::host;
    schedule::Instruction& squares =
        program.add(kinds::norms, beside ? Lane::update : Lane::compute, static_cast<int>(b));
    const NormsView view(squares, run::Lists::added);
    view.gradient.front() = {gradients[b], 0};
    view.sums.front() = sums.back();
    squares.elements = run::elements_in(builder, b, gradients[b], plan.sum_bytes());
    squares.cost.bytes = static_cast<Bytes>(bucket.shard_size(builder.rank())) * plan.sum_bytes();
  }

  const detail::ScalarLayout layout(plan, norms);
  const run::Value all{
      program.add_storage("scalars", static_cast<Bytes>(layout.size()) * sizeof(double),
                          Place::host),
      0};
  schedule::Instruction& scalars = program.add(kinds::scalars, Lane::reduce);
  scalars.traffic = schedule::Traffic::scalars;
  if (about.counts.empty()) {
    detail::count_micro_batches(scalars, builder);
  } else {
    scalars.mode = static_cast<std::uint8_t>(Counted::folds);
  }
  const ScalarsView view(builder, scalars, sums.size(), run::Lists::added);
  detail::read_losses(view, builder, about.losses);
  view.counts.set(about.counts);
  view.sums.set(sums);
  view.result.front() = all;
  run::add_all_gather_messages(scalars, builder, sizeof(double), channel, plan.topology.everyone(),
                               layout.ranks);

  builder.verdict = program.add_storage("verdict", sizeof(Verdict), Place::host);
  schedule::Instruction& decide = program.add(kinds::decide, Lane::reduce);
  const DecideView verdict(decide, run::Lists::added);
  verdict.scalars.front() = all;
  verdict.verdict.front() = {builder.verdict, 0};
}

}  // namespace optim
}  // namespace v0
}  // namespace reef
