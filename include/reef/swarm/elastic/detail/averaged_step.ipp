#pragma once

#include <cstdint>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/detail/scalars.hpp>
#include <reef/run/messages.hpp>
#include <reef/swarm/elastic/detail/averaged_step.hpp>
#include <reef/swarm/elastic/detail/rounds.hpp>

namespace reef {
inline namespace v0 {
namespace swarm::detail {

REEF_INLINE void AveragedStep::add(const run::Pass& model) {
  if (!builder_.trains()) {
    model(builder_);
    optim::add_decision(builder_, run::first_scalars_channel, {});
    return;
  }
  constexpr Bytes counts_bytes = optim::detail::ScalarLayout::counts * sizeof(double);
  counts_ = {program_.add_storage("counts", counts_bytes, run::Place::device), 0};
  scalars_ = {program_.add_storage("scalars of the round", sizeof(RoundScalars), run::Place::host), 0};
  sum_ = flat("sum over contributors");
  program_.add(kinds::begin_round, run::Lane::source);
  clear();
  accumulate(model);
  contribute();
  exchange();
  decide();
  for (const std::size_t b : builder_.stage_buckets()) {
    optim::add_update(builder_, b, run::Value{sum_[b], 0}, builder_.weights[b], states_);
  }
}

REEF_INLINE std::vector<run::StorageId> AveragedStep::flat(const std::string& name) {
  const auto bytes = [&](std::int64_t elements) { return static_cast<Bytes>(elements) * plan_.sum_bytes(); };
  const run::StorageId whole =
      program_.add_storage(name, bytes(plan_.layout.trained_elements), plan_.persistent_place);
  std::vector<run::StorageId> parts(plan_.buckets.size(), run::no_storage);
  for (const std::size_t b : builder_.stage_buckets()) {
    const run::Bucket& bucket = plan_.buckets[b];
    parts[b] = program_.add_part(concat(name, " of bucket ", b), whole, bytes(bucket.begin), bytes(bucket.size()));
  }
  return parts;
}

REEF_INLINE void AveragedStep::clear() {
  const auto add = [&](run::Lane lane, int index, const std::vector<run::Value>& sums) {
    run::Instruction& clear = program_.add(kinds::clear, lane, index);
    ClearView(builder_, clear, run::Lists::added).sums.set(sums);
    for (const run::Value sum : sums) clear.cost.bytes += program_.storages[sum.storage].bytes;
  };
  add(run::Lane::compute, -1, {counts_});
  const run::StepBuilder::Accumulators& accumulators = builder_.accumulators_of(0);
  for (const std::size_t b : builder_.stage_buckets()) {
    std::vector<run::Value> sums{{accumulators.buckets[b], 0}};
    for (const int use : builder_.tied_uses(b)) sums.push_back({accumulators.uses[static_cast<std::size_t>(use)], 0});
    add(optim::update_lane(builder_, b), static_cast<int>(b), sums);
  }
}

REEF_INLINE void AveragedStep::accumulate(const run::Pass& model) {
  schedule::Repeat loop;
  loop.begin = static_cast<std::uint32_t>(program_.round.size());
  loop.until = loop.begin;
  while (program_.round[--loop.until].kind != kinds::begin_round) {
  }
  builder_.phase = {.continues = true, .one_micro_batch = true};
  model(builder_);
  optim::add_count(builder_, builder_.micro_batches.size() - 1, counts_, false);
  loop.end = static_cast<std::uint32_t>(program_.round.size());
  loop.max = plan_.max_micro_batches;
  loop.expected = plan_.micro_batches_of(builder_.rank());
  program_.repeats.push_back(loop);
}

REEF_INLINE void AveragedStep::contribute() {
  const run::StepBuilder::Accumulators& accumulators = builder_.accumulators_of(0);
  for (const std::size_t b : builder_.stage_buckets()) {
    run::Instruction& contribute = program_.add(kinds::contribute, lane(), static_cast<int>(b));
    const optim::HandOverView view(builder_, contribute, run::Lists::added);
    view.gradient.front() = {accumulators.buckets[b], 0};
    const std::vector<int> uses = builder_.tied_uses(b);
    for (std::size_t k = 0; k < uses.size(); ++k) {
      view.uses[k] = {accumulators.uses[static_cast<std::size_t>(uses[k])], 0};
      contribute.cost.bytes += 3 * program_.storages[view.uses[k].storage].bytes;
    }
    view.sum.front() = {sum_[b], 0};
    contribute.cost.bytes += 2 * builder_.sum_bytes(b);
  }
}

REEF_INLINE void AveragedStep::exchange() {
  for (const std::string_view kind : {kinds::offer, kinds::result}) {
    run::Instruction& instruction = program_.add(kind, run::Lane::reduce);
    const RoundView view(builder_, instruction, run::Lists::added);
    for (std::size_t k = 0; k < builder_.stage_buckets().size(); ++k) {
      const std::size_t b = builder_.stage_buckets()[k];
      (view.sum.empty() ? view.contribution : view.sum)[k] = {sum_[b], 0};
    }
    view.counts.front() = counts_;
    if (!view.scalars.empty()) view.scalars.front() = scalars_;
  }
}

REEF_INLINE void AveragedStep::decide() {
  std::vector<run::Value> sums;
  if (plan_.waits_for_global_norm) sums = optim::add_own_norms(builder_, sum_, lane());
  builder_.verdict = program_.add_storage("verdict", sizeof(optim::Verdict), run::Place::host);
  run::Instruction& decide = program_.add(kinds::decide_round, run::Lane::reduce);
  const DecideRoundView view(builder_, decide, run::Lists::added);
  view.scalars.front() = scalars_;
  view.sums.set(sums);
  view.verdict.front() = {builder_.verdict, 0};
}

}  // namespace swarm::detail
}  // namespace v0
}  // namespace reef
