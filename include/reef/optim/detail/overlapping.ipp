#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/detail/overlapping.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

REEF_INLINE void OverlappingStep::reserve(run::StepBuilder& builder, int states, bool weights_are_committed) {
  builder.keep_gradients();
  reserve_states(builder, states, true);
  builder.comm_buffer.assign(builder.plan.buckets.size(), run::no_storage);
  for (const std::size_t b : builder.stage_buckets()) {
    builder.comm_buffer[b] =
        builder.program.add_storage(concat("comm buffer ", b), comm_buffer_bytes(builder, b),
                                    builder.plan.place_of(b), run::Life::reserved);
  }
  for (std::size_t p = 0; p < builder.tied_weights.size() && !weights_are_committed; ++p) {
    if (builder.tied_weights[p] == run::no_storage) continue;
    const graph::Parameter& parameter = builder.plan.dag->parameters[p];
    builder.tied_buffer[p] =
        builder.program.add_storage("tied buffer of " + parameter.name, parameter.spec.bytes(),
                                    run::Place::device, run::Life::reserved);
  }
  for (int fold = 0; builder.reports_loss() && fold < builder.plan.virtual_ranks; ++fold) {
    builder.program.add_storage(counts_name(fold), counts_bytes, run::Place::device,
                                run::Life::persistent);
  }
}

REEF_INLINE std::vector<StateRange> OverlappingStep::state(const run::StepBuilder& builder, int states,
                                     bool weights_are_committed) {
  using Distribution = StateRange::Distribution;
  const run::StepPlan& plan = builder.plan;
  std::vector<StateRange> ranges = state_ranges(builder, states, true);
  const auto [first, last] = plan.folds_of(builder.rank());
  for (int fold = first; fold < last; ++fold) {
    const auto& sums = builder.accumulators_of(fold - first);
    for (const std::size_t b : builder.stage_buckets()) {
      ranges.push_back({sums.buckets[b], concat("pending.", fold), plan.buckets[b].begin,
                        plan.buckets[b].size(), plan.gradient, Distribution::pending});
    }
    for (const graph::Parameter& parameter : plan.dag->parameters) {
      for (std::size_t u = 1; u < parameter.uses.size(); ++u) {
        const int use = parameter.uses[u];
        if (!builder.runs_use(use) || parameter.frozen) continue;
        ranges.push_back({sums.uses[static_cast<std::size_t>(use)],
                          concat("pending.", fold, ".use.", use), 0, parameter.spec.shape.size(),
                          plan.gradient, Distribution::pending});
      }
    }
    if (!builder.reports_loss()) continue;
    constexpr std::int64_t counts = ScalarLayout::counts;
    ranges.push_back({find(builder.program, counts_name(fold - first)), "counts", counts * fold,
                      counts, Element::float64, Distribution::pending});
  }
  for (const std::size_t b : builder.stage_buckets()) {
    if (weights_are_committed) break;
    ranges.push_back({builder.comm_buffer[b], "ahead", plan.buckets[b].begin,
                      plan.buckets[b].size(), plan.dag->element, Distribution::ahead});
  }
  add_tied_ranges(ranges, builder, {.name = "ahead", .distribution = Distribution::ahead});
  return ranges;
}

REEF_INLINE void OverlappingStep::add(const run::Pass& model, int phases) {
  using run::Purpose;
  if (builder_.purpose == Purpose::evaluation) {
    model(builder_);
    add_decision(builder_, scalars_channel(), {});
    return;
  }
  name_storages();
  switch (builder_.purpose) {
    case Purpose::prologue: run_phase(model, {.gradients = 1}); return;
    case Purpose::warm_up:
      run_phase(model, {.gradients = 1});
      hand_over(1);
      reduce();
      each_bucket([&](std::size_t b) { send_out(kinds::update, b, 1); });
      install_all(1);
      return;
    case Purpose::gather_committed: gather_committed(); return;
    default: add_round(model, phases);
  }
}

REEF_INLINE Bytes OverlappingStep::comm_buffer_bytes(const run::StepBuilder& builder, std::size_t b) {
  const run::StepPlan& plan = builder.plan;
  return static_cast<Bytes>(plan.buckets[b].size()) *
         (std::max)(plan.gradient_bytes(), plan.element_bytes());
}

REEF_INLINE void OverlappingStep::add_round(const run::Pass& model, int phases) {
  hand_over(0);
  if (phases == 2) {
    reduce();
    each_bucket([&](std::size_t b) { send_out(kinds::estimate, b, 1); });
    run_phase_beside(model, {.continues = true, .before = 1});
    install_all(1);
    hand_over(0);
  }
  reduce();
  each_bucket([&](std::size_t b) { send_out(kinds::update, b, phases); });
  run_phase_beside(model, {.weights = phases - 1, .gradients = 1, .before = phases});
  install_all(phases);
}

REEF_INLINE void OverlappingStep::run_phase_beside(const run::Pass& model, run::AccumulationPhase phase) {
  const auto sent = static_cast<std::uint32_t>(program_.round.size() - 1);
  run_phase(model, phase);
  const int unit = plan_.micro_batches_of_body(builder_.rank());
  const int most =
      plan_.max_micro_batches == 0 ? 0 : (plan_.max_micro_batches - plan_.micro_batches_of(builder_.rank())) / unit;
  if (!plan_.adapts) return;
  const bool shared = plan_.topology.stages > 1;
  const std::uint32_t channel = shared ? scalars_channel() : 0;  // also of a replica whose bound leaves it no loop
  if (plan_.max_micro_batches > 0 && most <= 0) return;
  phase.continues = true;
  if (shared) {
    run::SharedLoop loop(builder_, static_cast<int>(program_.repeats.size()), channel);
    loop.begin();
    run_phase(model, phase);
    loop.end(sent, most);
    return;
  }
  const auto begin = static_cast<std::uint32_t>(program_.round.size());
  phase.one_micro_batch = true;
  run_phase(model, phase);
  const auto end = static_cast<std::uint32_t>(program_.round.size());
  program_.repeats.push_back({.begin = begin, .end = end, .until = sent, .max = most});
}

REEF_INLINE void OverlappingStep::run_phase(const run::Pass& model, run::AccumulationPhase phase) {
  builder_.phase = phase;
  std::size_t j = builder_.micro_batches.size();
  model(builder_);
  if (!builder_.reports_loss()) return;
  const auto [first, last] = plan_.folds_of(builder_.rank());
  for (int fold = first; fold < last; ++fold) {
    const run::StorageId counts = counts_[static_cast<std::size_t>(fold - first)];
    for (int k = 0; k < builder_.micro_batches_of(fold); ++k, ++j) {
      add_count(builder_, j, {counts, phase.gradients}, k == 0 && !phase.continues);
    }
  }
}

REEF_INLINE void OverlappingStep::name_storages() {
  for (int fold = 0; builder_.reports_loss() && fold < plan_.virtual_ranks; ++fold) {
    counts_.push_back(find(program_, counts_name(fold)));
    handed_counts_.push_back({program_.add_storage(concat("handed ", counts_name(fold)),
                                                   counts_bytes, run::Place::device),
                              0});
  }
  for (auto* const by_bucket : {&arrived_, &outgoing_, &shards_, &handed_}) {
    by_bucket->assign(plan_.buckets.size(), run::no_storage);
  }
  each_bucket([&](std::size_t b) {
    const run::Bucket& bucket = plan_.buckets[b];
    const run::StorageId all = builder_.comm_buffer[b];
    const auto begin = static_cast<Bytes>(bucket.shard_begin(builder_.rank()));
    const auto elements = static_cast<Bytes>(bucket.shard_size(builder_.rank()));
    const auto part = [&](const char* what, Bytes from, Bytes count, Bytes element) {
      return program_.add_part(concat(what, b), all, from * element, count * element);
    };
    const auto size = static_cast<Bytes>(bucket.size());
    arrived_[b] = part("arriving weights ", 0, size, plan_.element_bytes());
    outgoing_[b] = bucket.alone()
                       ? arrived_[b]
                       : part("outgoing weights ", begin, elements, plan_.element_bytes());
    if (own_shards_) {
      shards_[b] = program_.add_storage(concat("gradient shard ", b),
                                        elements * plan_.sum_bytes(), plan_.place_of(b));
    } else {
      shards_[b] =
          bucket.alone() ? all : part("gradient shard ", begin, elements, plan_.sum_bytes());
    }
    if (bucket.alone()) {
      handed_[b] = shards_[b];
    } else if (plan_.rounds_gradients()) {
      handed_[b] = part("leaving gradients ", 0, size, plan_.gradient_bytes());
    } else {
      handed_[b] = all;
    }
  });
}

REEF_INLINE void OverlappingStep::hand_over(int version) {
  run::add_tied_gradients(builder_, 0, version, ++arrived_uses_);
  each_bucket([&](std::size_t b) { hand_over(b, version); });
  if (counts_.empty()) return;
  std::vector<run::Value> counts;
  for (const run::StorageId id : counts_) counts.push_back({id, version});
  run::CopyView(program_.add(kinds::hand_counts, run::Lane::compute), counts, handed_counts_);
}

REEF_INLINE void OverlappingStep::hand_over(std::size_t b, int version) {
  const bool encodes = run::stands_for_encoded(plan_, schedule::Traffic::gradient, b);
  const bool widens = (plan_.rounds_gradients() || encodes) && plan_.buckets[b].alone();
  for (int fold = 0; fold < plan_.virtual_ranks; ++fold) {
    const auto& sums = builder_.accumulators_of(fold);
    const run::StorageId rounded =
        widens ? program_.add_storage(concat("leaving gradients ", b), builder_.gradient_bytes(b),
                                      plan_.place_of(b))
               : run::no_storage;
    run::Instruction& hand =
        program_.add(kinds::hand_over, run::Lane::compute, static_cast<int>(b));
    const HandOverView handed(builder_, hand, run::Lists::added);
    handed.gradient.front() = {sums.buckets[b], version};
    const std::vector<int> uses = builder_.tied_uses(b);
    for (std::size_t k = 0; k < uses.size(); ++k) {
      handed.uses[k] = {sums.uses[static_cast<std::size_t>(uses[k])],
                        builder_.runs_use(uses[k]) ? version : arrived_uses_};
    }
    hand.cost.bytes = 2 * builder_.gradient_bytes(b);
    for (const run::Value use : handed.uses) {
      hand.cost.bytes += 3 * program_.storages[use.storage].bytes;
    }
    const run::Value target{widens ? rounded : fold == 0 ? handed_[b] : builder_.reduced[b], 0};
    handed.sum.front() = target;
    if (fold == 0 && !widens) continue;
    run::Instruction& add =
        program_.add(run::kinds::fold_rank, run::Lane::compute, static_cast<int>(b));
    run::set_sum_mode(add, fold == 0);
    const run::FoldRankView view(add, run::Lists::added);
    view.gradient.front() = target;
    view.sum.front() = {handed_[b], 0};
    add.cost.bytes = (fold == 0 ? 1 : 2) * program_.storages[handed_[b]].bytes +
                     program_.storages[target.storage].bytes;
  }
}

REEF_INLINE void OverlappingStep::reduce() {
  each_bucket([&](std::size_t b) {
    const run::Bucket& bucket = plan_.buckets[b];
    if (bucket.alone()) return;
    run::Instruction& scatter =
        program_.add(kinds::reduce_scatter, run::Lane::reduce, static_cast<int>(b));
    scatter.traffic = schedule::Traffic::gradient;
    run::CollectiveView(scatter, {handed_[b], 0}, {shards_[b], 0});
    run::add_reduce_scatter_messages(scatter, builder_, plan_.gradient_bytes(), channel(),
                                     bucket.group, bucket.shards);
  });
  add_decision(builder_, scalars_channel(), shards_, {.beside = true, .counts = handed_counts_});
}

REEF_INLINE void OverlappingStep::send_out(std::string_view kind, std::size_t b, int version) {
  run::Instruction& update = program_.add(kind, run::Lane::update, static_cast<int>(b));
  const OutgoingView view(builder_, update, static_cast<std::size_t>(states_), run::Lists::added);
  view.gradient.front() = {shards_[b], 0};
  view.verdict.front() = {builder_.verdict, 0};
  view.outgoing.front() = {outgoing_[b], version};
  set_kept(view, builder_, states_, b);
  update.elements = run::elements_in(builder_, b, outgoing_[b], plan_.element_bytes());
  const int numbers = kept_numbers(plan_, states_);
  const bool commits = kind == kinds::update;
  const auto elements = static_cast<Bytes>(plan_.buckets[b].shard_size(builder_.rank()));
  update.cost.bytes =
      elements * (plan_.element_bytes() +
                  plan_.sum_bytes() * static_cast<Bytes>(1 + (commits ? 2 : 1) * numbers));
  gather(b, version);
}

REEF_INLINE void OverlappingStep::gather_committed() {
  each_bucket([&](std::size_t b) { publish(b); });
  std::vector<std::vector<run::Value>> committed(plan_.buckets.size());
  each_bucket([&](std::size_t b) { committed[b] = {{arrived_[b], 1}}; });
  run::add_tied_weights(builder_, committed, builder_.tied_buffer, 1);
}

REEF_INLINE void OverlappingStep::publish(std::size_t b) {
  run::CopyView(program_.add(kinds::publish, run::Lane::update, static_cast<int>(b)),
                {{find(program_, storage_name(states_, states_, b)), 0}}, {{outgoing_[b], 1}});
  gather(b, 1);
}

REEF_INLINE void OverlappingStep::gather(std::size_t b, int version) {
  const run::Bucket& bucket = plan_.buckets[b];
  if (bucket.alone() && !run::stands_for_encoded(plan_, schedule::Traffic::parameter, b)) return;
  run::Instruction& gather =
      program_.add(kinds::gather_weights, run::Lane::reduce, static_cast<int>(b));
  gather.traffic = schedule::Traffic::parameter;
  run::CollectiveView(gather, {outgoing_[b], version}, {arrived_[b], version});
  run::add_all_gather_messages(gather, builder_, plan_.element_bytes(), channel(),
                               bucket.group, bucket.shards);
}

REEF_INLINE void OverlappingStep::install(std::size_t b, int version) {
  run::Instruction& install =
      program_.add(kinds::install, run::Lane::compute, static_cast<int>(b));
  run::CopyView(install, {{arrived_[b], version}}, {{builder_.weights[b], version}});
  install.cost.bytes = 2 * program_.storages[arrived_[b]].bytes;
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
