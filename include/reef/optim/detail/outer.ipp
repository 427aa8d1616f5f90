#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/detail/outer.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

REEF_INLINE std::vector<std::size_t> pieces_in(const std::vector<Piece>& pieces, std::size_t b) {
  std::vector<std::size_t> places;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    if (pieces[p].bucket == b) places.push_back(p);
  }
  return places;
}

REEF_INLINE void OuterProgram::reserve(run::StepBuilder& builder, int inner_states, int outer_states) {
  if (run::gathers_differences(builder.plan) &&
      builder.plan.outer_schedule.overlap == run::OuterSchedule::Overlap::eager) {
    throw OptionError(
        "reef::optim::DiLoCo: overlap is eager, and pseudo-gradients are encoded.\n"
        "  why: a rank goes on with its own difference as it is, the others with what is left of it.\n"
        "  fix: Overlap::none or Overlap::mix, or no PseudoGradient channel.");
  }
  reserve_states(builder, inner_states, false);
  const std::vector<Piece> pieces = fragment_pieces(builder.plan, builder.rank());
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const auto elements = static_cast<Bytes>(pieces[p].shard_size(builder.rank()));
    const run::Place place = builder.plan.place_of(pieces[p].bucket);
    for (int kept = 0; kept <= outer_states; ++kept) {
      builder.program.add_storage(outer_storage(kept, outer_states, p),
                                  elements * builder.plan.sum_bytes(), place,
                                  run::Life::persistent);
    }
  }
  // No gradient is kept from step to step.
  builder.comm_buffer = builder.reduced;
  for (std::size_t p = 0; p < builder.tied_weights.size(); ++p) {
    if (builder.tied_weights[p] == run::no_storage) continue;
    const graph::Parameter& parameter = builder.plan.dag->parameters[p];
    const auto use = std::find_if(parameter.uses.begin(), parameter.uses.end(),
                                  [&](int u) { return builder.runs_use(u); });
    builder.tied_buffer[p] = builder.program.add_part(
        "tied buffer of " + parameter.name,
        builder.accumulators_of(0).uses[static_cast<std::size_t>(*use)], 0, parameter.spec.bytes());
  }
  if (builder.plan.outer_schedule.overlap != run::OuterSchedule::Overlap::eager) return;
  const auto keep = [&](std::string name, std::int64_t elements, std::size_t b) {
    builder.program.add_storage(std::move(name),
                                static_cast<Bytes>(elements) * builder.plan.sum_bytes(),
                                builder.plan.place_of(b), run::Life::persistent);
  };
  for (const std::size_t b : builder.stage_buckets()) {
    for (int kept = 0; kept <= outer_states; ++kept) {
      keep(own_storage(kept, outer_states, b), builder.plan.buckets[b].size(), b);
    }
  }
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    keep(leaving_name(p), pieces[p].size(), pieces[p].bucket);
  }
}

REEF_INLINE std::vector<StateRange> OuterProgram::state(const run::StepBuilder& builder, int inner_states,
                                     int outer_states) {
  using Distribution = StateRange::Distribution;
  const run::StepPlan& plan = builder.plan;
  const Element sum = sum_of(plan.dag->element);
  const std::string own = concat("rank.", plan.topology.replica_of(builder.rank()), ".");
  std::vector<StateRange> ranges = state_ranges(builder, inner_states, false);
  for (StateRange& range : ranges) {
    range.name = own + range.name;
    range.distribution = Distribution::pending;
  }
  for (const std::size_t b : builder.stage_buckets()) {
    ranges.push_back({builder.comm_buffer[b], own + "weights", plan.buckets[b].begin,
                      plan.buckets[b].size(), plan.dag->element, Distribution::ahead, false, true});
  }
  add_tied_ranges(ranges, builder, {.name = own + "weights", .distribution = Distribution::ahead, .own = true});
  const std::vector<Piece> pieces = fragment_pieces(plan, builder.rank());
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const Piece& piece = pieces[p];
    const std::int64_t begin = plan.buckets[piece.bucket].begin + piece.begin;
    for (int kept = 0; kept <= outer_states; ++kept) {
      ranges.push_back({find(builder.program, outer_storage(kept, outer_states, p)), outer_name(kept, outer_states),
                        begin + piece.shard_begin(builder.rank()), piece.shard_size(builder.rank()), sum,
                        run::gathers_differences(plan) ? Distribution::whole : Distribution::shard,
                        kept == outer_states});
    }
  }
  if (plan.outer_schedule.overlap != run::OuterSchedule::Overlap::eager) return ranges;
  for (const std::size_t b : builder.stage_buckets()) {
    for (int kept = 0; kept <= outer_states; ++kept) {
      const bool start = kept == outer_states;
      ranges.push_back({find(builder.program, own_storage(kept, outer_states, b)),
                        own + (start ? "start" : outer_name(kept, outer_states)),
                        plan.buckets[b].begin, plan.buckets[b].size(), sum, Distribution::pending,
                        start});
    }
  }
  // What is set as the weights has arrived.
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    ranges.push_back({find(builder.program, leaving_name(p)), own + "leaving",
                      plan.buckets[pieces[p].bucket].begin + pieces[p].begin, pieces[p].size(),
                      sum, Distribution::pending, true});
  }
  return ranges;
}

REEF_INLINE void OuterProgram::add(const run::Pass& model) {
  if (builder_.purpose == run::Purpose::evaluation) {
    model(builder_);
    add_decision(builder_, run::first_scalars_channel, {});
    return;
  }
  if (builder_.purpose == run::Purpose::gather_committed) {
    gather_committed();
    return;
  }
  const bool overlaps = plan_.outer_schedule.overlap != run::OuterSchedule::Overlap::none;
  if (eager() && builder_.variant == 1) {
    for (const std::size_t b : builder_.stage_buckets()) begin_outer_round(b);
    leaving_version_ = own_version_ = 1;
    run::add_tied_weights(builder_, own_version_);
  }
  if (overlaps) step_outer();
  builder_.phase = {.weights = own_version_};
  model(builder_);
  add_own_decision(builder_);
  for (const std::size_t b : builder_.stage_buckets()) {
    add_update(builder_, b, {builder_.reduced[b], 0}, builder_.weights[b], inner_states_);
  }
  ++own_version_;
  if (!overlaps) step_outer();
  std::vector<std::vector<run::Value>> made(plan_.buckets.size());
  for (const std::size_t b : builder_.stage_buckets()) made[b] = {{builder_.weights[b], own_version_}};
  each_piece([&](std::size_t p) {
    if (eager()) return;
    merge(p);
    made[pieces_[p].bucket] = {{builder_.weights[pieces_[p].bucket], own_version_ + 1}};
  });
  run::add_tied_weights(builder_, made, builder_.tied_weights, own_version_);
  builder_.sends_tied_weights = true;
}

REEF_INLINE void OuterProgram::step_outer() {
  leaving_.assign(pieces_.size(), run::no_storage);
  shards_ = leaving_;
  sums_ = leaving_;
  const bool differs = run::gathers_differences(plan_);
  each_piece([&](std::size_t p) {
    name_storages(p);
    if (differs) {
      take_difference(p);
    } else if (!eager()) {
      hand_out(p);
    }
  });
  if (!differs) each_piece([&](std::size_t p) { reduce(p); });
  each_piece([&](std::size_t p) {
    if (differs) gather_differences(p);
    update(p);
    gather(p);
  });
}

REEF_INLINE void OuterProgram::name_storages(std::size_t p) {
  using Overlap = run::OuterSchedule::Overlap;
  const Piece& piece = pieces_[p];
  const Bytes bytes = bytes_of(piece.size());
  switch (plan_.outer_schedule.overlap) {
    case Overlap::none:
      leaving_[p] = program_.add_part(leaving_name(p), builder_.reduced[piece.bucket],
                                      bytes_of(piece.begin), bytes);
      break;
    case Overlap::mix:
      leaving_[p] = program_.add_storage(leaving_name(p), bytes, plan_.place_of(piece.bucket));
      break;
    case Overlap::eager: leaving_[p] = find(program_, leaving_name(p)); break;
  }
  shards_[p] = piece.alone() ? leaving_[p]
                             : program_.add_part(concat("shard of piece ", p), leaving_[p],
                                                    bytes_of(piece.shard_begin(builder_.rank())),
                                                    bytes_of(piece.shard_size(builder_.rank())));
  sums_[p] = shards_[p];
}

REEF_INLINE void OuterProgram::hand_out(std::size_t p) {
  const std::size_t b = pieces_[p].bucket;
  run::Instruction& hand = add(kinds::hand_out, run::Lane::compute, p);
  run::CopyView(hand, {{own(b), plan_.keeps_master() ? 0 : own_version_}}, {{leaving_[p], 0}});
  hand.cost.bytes = 2 * bytes_of(pieces_[p].size());
}

REEF_INLINE void OuterProgram::take_difference(std::size_t p) {
  const std::size_t b = pieces_[p].bucket;
  run::Instruction& take = add(kinds::differences, run::Lane::compute, p);
  const DifferencesView view(take, run::Lists::added);
  view.own.front() = {own(b), plan_.keeps_master() ? 0 : own_version_};
  view.outer.front() = {find(program_, outer_storage(outer_states_, outer_states_, p)), 0};
  view.difference.front() = {leaving_[p], 0};
  take.cost.bytes = 3 * bytes_of(pieces_[p].size());
}

REEF_INLINE void OuterProgram::gather_differences(std::size_t p) {
  const Piece& piece = pieces_[p];
  const int members = piece.senders.size();
  if (members == 1) return;
  std::vector<std::int64_t> offsets{0};
  while (std::ssize(offsets) <= members) offsets.push_back(offsets.back() + piece.size());
  sums_[p] = program_.add_storage(concat("differences of piece ", p), bytes_of(offsets.back()),
                                  plan_.place_of(piece.bucket));
  run::Instruction& gather = add(kinds::gather_differences, run::Lane::reduce, p);
  gather.traffic = schedule::Traffic::pseudo_gradient;
  run::CollectiveView(gather, {leaving_[p], 0}, {sums_[p], 0});
  run::add_all_gather_messages(gather, builder_, plan_.sum_bytes(), channel(), piece.senders, std::move(offsets));
}

REEF_INLINE void OuterProgram::begin_outer_round(std::size_t b) {
  run::Instruction& begin = add(kinds::outer_begin, run::Lane::compute, b);
  const std::vector<std::size_t> pieces = pieces_in(pieces_, b);
  const OuterBeginView view(builder_, begin, pieces.size(),
                            static_cast<std::size_t>(outer_states_), run::Lists::added);
  view.weights.front() = {builder_.weights[b], 0};
  view.begun.front() = {builder_.weights[b], 1};
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const run::StorageId piece = find(program_, leaving_name(pieces[k]));
    view.arrived[k] = {piece, 0};
    view.leaving[k] = {piece, 1};
  }
  for (std::size_t k = 0; k < view.states.size(); ++k) {
    view.states[k] = {find(program_, own_storage(static_cast<int>(k), outer_states_, b)), 0};
  }
  view.start.front() = {find(program_, own_storage(outer_states_, outer_states_, b)), 0};
  if (!view.master.empty()) view.master.front() = {own(b), 0};
  begin.cost.bytes =
      bytes_of(plan_.buckets[b].size()) * static_cast<Bytes>(6 + 2 * outer_states_);
}

REEF_INLINE void OuterProgram::reduce(std::size_t p) {
  if (pieces_[p].alone()) return;
  run::Instruction& reduce = add(kinds::reduce_weights, run::Lane::reduce, p);
  reduce.traffic = schedule::Traffic::pseudo_gradient;
  run::CollectiveView(reduce, {leaving_[p], leaving_version_}, {shards_[p], leaving_version_});
  run::add_reduce_scatter_messages(reduce, builder_, plan_.sum_bytes(), channel(),
                                   pieces_[p].group, pieces_[p].shards);
}

REEF_INLINE void OuterProgram::update(std::size_t p) {
  run::Instruction& update = add(kinds::outer_update, run::Lane::update, p);
  const OuterUpdateView view(update, static_cast<std::size_t>(outer_states_), run::Lists::added);
  view.sum.front() = {sums_[p], leaving_version_};
  view.result.front() = {shards_[p], leaving_version_ + 1};
  for (std::size_t k = 0; k < view.states.size(); ++k) {
    view.states[k] = {find(program_, outer_storage(static_cast<int>(k), outer_states_, p)), 0};
  }
  view.weights.front() = {find(program_, outer_storage(outer_states_, outer_states_, p)), 0};
  update.cost.bytes = bytes_of(pieces_[p].shard_size(builder_.rank())) *
                      static_cast<Bytes>(2 + 2 * (1 + outer_states_));
}

REEF_INLINE void OuterProgram::gather(std::size_t p) {
  if (pieces_[p].alone()) return;
  run::Instruction& gather = add(kinds::gather_outer, run::Lane::reduce, p);
  gather.traffic = schedule::Traffic::parameter;
  run::CollectiveView(gather, {shards_[p], leaving_version_ + 1},
                      {leaving_[p], leaving_version_ + 1});
  run::add_all_gather_messages(gather, builder_, plan_.sum_bytes(), channel(), pieces_[p].group,
                               pieces_[p].shards);
}

REEF_INLINE void OuterProgram::merge(std::size_t p) {
  const std::size_t b = pieces_[p].bucket;
  run::Instruction& merge = add(kinds::merge, run::Lane::compute, p);
  const MergeView view(builder_, merge, run::Lists::added);
  view.arrived.front() = {leaving_[p], leaving_version_ + 1};
  view.weights.front() = {builder_.weights[b], own_version_};
  view.merged.front() = {builder_.weights[b], own_version_ + 1};
  if (!view.master.empty()) view.master.front() = {own(b), 0};
  merge.cost.bytes = 3 * bytes_of(pieces_[p].size());
}

REEF_INLINE void OuterProgram::gather_committed() {
  std::vector<std::vector<run::Value>> committed(plan_.buckets.size());
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const Piece& piece = pieces_[p];
    const auto part = [&](const char* what, std::int64_t begin, std::int64_t elements) {
      return program_.add_part(concat(what, p), builder_.comm_buffer[piece.bucket],
                               static_cast<Bytes>(begin) * plan_.element_bytes(),
                               static_cast<Bytes>(elements) * plan_.element_bytes());
    };
    const run::StorageId whole = part("committed piece ", piece.begin, piece.size());
    const run::StorageId shard =
        piece.alone()
            ? whole
            : part("committed shard of piece ", piece.begin + piece.shard_begin(builder_.rank()),
                   piece.shard_size(builder_.rank()));
    run::CopyView(add(kinds::publish, run::Lane::update, p),
                  {{find(program_, outer_storage(outer_states_, outer_states_, p)), 0}},
                  {{shard, 0}});
    committed[piece.bucket].push_back({whole, 0});  // ascending, as fragments do
    if (piece.alone()) continue;
    run::Instruction& gather = add(kinds::gather_committed, run::Lane::reduce, p);
    gather.traffic = schedule::Traffic::parameter;
    run::CollectiveView(gather, {shard, 0}, {whole, 0});
    run::add_all_gather_messages(gather, builder_, plan_.element_bytes(), channel(),
                                 piece.group, piece.shards);
  }
  run::add_tied_weights(builder_, committed, builder_.tied_buffer, 0);
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
