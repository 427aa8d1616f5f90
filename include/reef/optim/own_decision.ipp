#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/own_decision.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

namespace detail {

REEF_INLINE ReplicaLayout::ReplicaLayout(const run::StepPlan& plan, int replica)
    : group(plan.topology.pipeline(replica)),
      norms(plan.buckets.size()),
      blocks(plan.buckets.size()) {
  for (const int rank : group.members) {
    std::int64_t end = members.back() + ScalarLayout::counts;
    for (const std::size_t b : plan.buckets_of(plan.topology.stage_of(rank))) {
      norms[b] = end;
      blocks[b] = run::norm_blocks(plan.buckets[b].pieces(0, plan.buckets[b].size()));
      end += blocks[b];
    }
    members.push_back(end);
  }
}

}  // namespace detail

REEF_INLINE std::vector<run::Value> add_own_norms(run::StepBuilder& builder,
                                                  const std::vector<run::StorageId>& gradients, run::Lane lane) {
  const run::StepPlan& plan = builder.plan;
  schedule::Program& program = builder.program;
  std::vector<run::Value> sums;
  for (const std::size_t b : builder.stage_buckets()) {
    const run::Bucket& bucket = plan.buckets[b];
    const std::int64_t blocks = run::norm_blocks(bucket.pieces(0, bucket.size()));
    sums.push_back({program.add_storage(concat("sums of squares ", b),
                                        static_cast<Bytes>(blocks) * sizeof(double), run::Place::device),
                    0});
    schedule::Instruction& norms = program.add(kinds::own_norms, lane, static_cast<int>(b));
    const NormsView view(norms, run::Lists::added);
    view.gradient.front() = {gradients[b], 0};
    view.sums.front() = sums.back();
    norms.cost.bytes = builder.sum_bytes(b);
  }
  return sums;
}

REEF_INLINE void add_own_decision(run::StepBuilder& builder) {
  using run::Lane;
  using run::Place;
  const run::StepPlan& plan = builder.plan;
  schedule::Program& program = builder.program;
  const std::vector<run::Value> sums = add_own_norms(builder, builder.reduced);
  const bool alone = plan.topology.stages == 1;
  builder.verdict = program.add_storage("verdict", sizeof(Verdict), Place::host);
  schedule::Instruction& scalars =
      program.add(alone ? kinds::own_decide : kinds::replica_scalars, Lane::source);
  detail::count_micro_batches(scalars, builder);
  const ScalarsView view(builder, scalars, sums.size(), run::Lists::added);
  detail::read_losses(view, builder);
  view.sums.set(sums);
  view.result.front() = {builder.verdict, 0};
  if (alone) return;
  const detail::ReplicaLayout layout(plan, plan.topology.replica_of(builder.rank()));
  const run::StorageId table =
      program.add_storage("scalars of the replica",
                          static_cast<Bytes>(layout.members.back()) * sizeof(double), Place::host);
  view.result.front() = {table, 0};
  scalars.traffic = schedule::Traffic::scalars;
  run::add_all_gather_messages(scalars, builder, sizeof(double), run::first_scalars_channel + 1,
                               layout.group, layout.members);
  const DecideView decide(program.add(kinds::replica_decide, Lane::source), run::Lists::added);
  decide.scalars.front() = {table, 0};
  decide.verdict.front() = {builder.verdict, 0};
}

}  // namespace optim
}  // namespace v0
}  // namespace reef
