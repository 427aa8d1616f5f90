#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/run/views.hpp>
#include <reef/swap/detail/stasher.hpp>
#include <reef/swap/detail/swap_slots.hpp>
#include <reef/swap/detail/swapper.hpp>
#include <reef/swap/kinds.hpp>
#include <reef/swap/views.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

REEF_INLINE Swapper::Swapper(run::StepBuilder& builder)
    : builder_(builder),
      program_(builder.program),
      schedule_(builder.plan.swapping),
      sorts_(!schedule_.per_micro_batch && builder.plan.topology.stages == 1 &&
             !builder.plan.has_order()) {
  for (const auto& fold : builder.accumulators) {
    all_sums_.insert(fold.buckets.begin(), fold.buckets.end());
    all_sums_.insert(fold.uses.begin(), fold.uses.end());
  }
}

REEF_INLINE void Swapper::run() {
  std::vector<Instruction> written;
  written.swap(program_.round);
  program_.round.reserve(2 * written.size());  // with what is put between
  reserve();
  std::vector<Instruction> fold;
  fold.reserve(written.size());
  for (Instruction& instruction : written) {
    const bool of_model = is_of_model(instruction);
    const bool ends = sorts_ ? instruction.lane == Lane::compute : touches_sums(instruction);
    if (!of_model && ends) finish(fold);
    const bool stays = of_model || !(sorts_ || ends);
    (stays ? fold : program_.round).push_back(std::move(instruction));
  }
  finish(fold);
  leave();
}

REEF_INLINE bool Swapper::touches_sums(const Instruction& i) const {
  bool found = false;
  schedule::for_each_value(i, [&](const Value& value) { found = found || all_sums_.contains(value.storage); });
  return found;
}

REEF_INLINE std::vector<Value> Swapper::that_swap(std::vector<Value> values) const {
  std::erase_if(values, [this](const Value& value) { return !swaps(value); });
  return values;
}

REEF_INLINE void Swapper::replace(const Operand& operands, const std::vector<Value>& parts) const {
  auto part = parts.begin();
  for (Value& value : operands) {
    if (swaps(value)) value = *part++;
  }
}

REEF_INLINE void Swapper::reserve() {
  if (!swap_slots().weights.empty()) return;
  const std::vector<int>& own = builder_.segments();
  std::vector<std::vector<Value>> weights(builder_.plan.segments.size());
  std::vector<std::vector<Value>> gradients(weights.size());
  for (const int s : own) {
    weights[static_cast<std::size_t>(s)] = weights_of(s);
    gradients[static_cast<std::size_t>(s)] = that_swap(builder_.gradients_of(s));
  }
  SwapSlots& made = swap_slots();
  const int micro_batches = builder_.plan.micro_batches_of(builder_.rank());
  const int versions =
      builder_.updates_within_the_step() ? builder_.plan.weight_versions.kept_by(builder_.stage(), micro_batches) : 1;
  const auto count = [&](int most) { return (std::min)(schedule_.weight_slots, most); };
  const auto segments = static_cast<int>(own.size());
  made.weights = Slots(program_, count(segments * versions), "weights", weights);
  // One is summed in, one is copied out of, and of three slots one more.
  const int sums = (std::min)(count(segments), 3);
  if (builder_.trains()) made.gradients = Slots(program_, sums, "gradients", gradients);
}

REEF_INLINE int Swapper::position(const Instruction& i) const {
  const int last = builder_.segments().back();
  return i.kind == run::kinds::forward || i.index == last ? i.index : 2 * last - i.index;
}

REEF_INLINE void Swapper::finish(std::vector<Instruction>& fold) {
  if (sorts_) {
    std::stable_sort(fold.begin(), fold.end(),
                     [this](const auto& a, const auto& b) { return position(a) < position(b); });
  }
  if (builder_.trains() && stashes_some() && !fold.empty()) {
    fold = Stasher(builder_, swap_slots()).run(std::move(fold));
  }
  const auto first = std::find_if(fold.begin(), fold.end(), is_of_segment);
  bring(first, fold.end());
  std::move(fold.begin(), first, std::back_inserter(program_.round));
  for (auto i = first; i != fold.end();) i = visit(i, fold.end());
  fold.clear();
  if (!builder_.updates_within_the_step()) leave();
}

REEF_INLINE void Swapper::leave() {
  for (const auto& [s, parts] : swap_slots().weights.all()) drop(s, parts);
  swap_slots().weights.forget();
}

REEF_INLINE bool Swapper::stashes_some() const {
  return std::any_of(builder_.segments().begin(), builder_.segments().end(), [this](int s) {
    return builder_.plan.stashes_segment(static_cast<std::size_t>(s));
  });
}

REEF_INLINE int Swapper::version_of(const Instruction& i) const {
  if (!builder_.updates_within_the_step()) return 0;
  return builder_.plan.weight_versions.version_of(builder_.stage(), i.micro_batch);
}

REEF_INLINE Swapper::Iterator Swapper::end_of_pass(Iterator begin, Iterator all) const {
  return std::find_if(begin, all, [&](const Instruction& i) {
    return is_of_segment(i) && (i.index != begin->index || version_of(i) != version_of(*begin));
  });
}

REEF_INLINE Swapper::Iterator Swapper::visit(Iterator begin, Iterator all) {
  const int s = begin->index;
  const int version = version_of(*begin);
  const Iterator end = end_of_pass(begin, all);
  weights_ = bring(begin, all);
  const auto summing =
      std::find_if(begin, end, [this](Instruction& i) { return !sums_of(i).empty(); });
  if (summing != end) begin_sums(*summing);
  // What has been stashed is waited for at once, the next weights later.
  const Iterator first =
      std::find_if_not(begin, end, [](const Instruction& i) { return i.kind == kinds::restore; });
  std::move(begin, first, std::back_inserter(program_.round));
  bring(end, all);
  for (Iterator i = first; i != end; ++i) {
    const std::vector<Value> sums = sums_of(*i);
    const bool last_of_sums = !sums.empty() && is_last(sums, i, end);
    if (!sums.empty()) {
      if (sums != sums_) begin_sums(*i);
      replace(gradients_in(*i), swap_slots().gradients.parts());
    }
    replace(weights_in(*i), weights_);
    program_.round.push_back(std::move(*i));
    if (last_of_sums) evict(s);
  }
  write_back(s, version);
  return end;
}

REEF_INLINE Swapper::Operand Swapper::weights_in(Instruction& i) const {
  if (i.kind == run::kinds::forward) return run::ForwardView(builder_, i).weights;
  if (i.kind == run::kinds::recompute) return run::RecomputeView(builder_, i).weights;
  if (is_backward(i)) return run::BackwardView(builder_, i).weights;
  return {};
}

REEF_INLINE Swapper::Operand Swapper::gradients_in(Instruction& i) const {
  if (i.kind == run::kinds::add_gradients) return run::AddGradientsView(builder_, i).gradients;
  if (!is_backward(i) || builder_.plan.rounds_gradients()) return {};
  return run::BackwardView(builder_, i).gradients;
}

REEF_INLINE bool Swapper::is_last(const std::vector<Value>& sums, Iterator i, Iterator end) const {
  for (++i; i != end; ++i) {
    const std::vector<Value> next = sums_of(*i);
    if (!next.empty()) return next != sums;
  }
  return true;
}

REEF_INLINE std::vector<Value> Swapper::bring(Iterator begin, Iterator all) {
  const Iterator end = begin == all ? all : end_of_pass(begin, all);
  const Iterator reader = std::find_if(begin, end, [this](Instruction& i) { return !weights_in(i).empty(); });
  if (reader == end) return {};
  const std::vector<Value> weights = that_swap(weights_in(*reader).values());
  if (weights.empty()) return {};
  const int s = begin->index;
  const int version = version_of(*begin);
  if (!swap_slots().weights.find(s, version)) {
    const auto [before, left] = swap_slots().weights.take(s, version);
    drop(before, left);
    move(kinds::load, Lane::load, s, weights, swap_slots().weights.parts());
  }
  return swap_slots().weights.parts();
}

REEF_INLINE void Swapper::begin_sums(Instruction& first) {
  sums_ = sums_of(first);
  swap_slots().gradients.take(first.index);
  goes_on_ = !run::begins_sum(first) || adds_to_other_half(first);
  if (goes_on_) {
    move(kinds::load_gradients, Lane::load, first.index, sums_, swap_slots().gradients.parts());
  }
}

REEF_INLINE bool Swapper::adds_to_other_half(Instruction& i) const {
  if (run::backward_part(i.kind) != graph::BackwardPart::weight) return false;
  return run::BackwardView(builder_, i).segment().input_half_has_parameters;
}

REEF_INLINE void Swapper::evict(int s) {
  const std::vector<Value> sums = std::exchange(sums_, {});
  Instruction& evict = program_.add(kinds::evict, leaving(), s);
  run::set_sum_mode(evict, !goes_on_);
  const EvictView view(evict, sums.size(), run::Lists::added);
  view.from.set(swap_slots().gradients.parts());
  view.to.set(sums);
  add_copies(evict.cost, program_, evict.reads);
  // What lies between parameters of a bucket stays where it is.
  const int b = builder_.plan.bucket_of_segment[static_cast<std::size_t>(s)];
  if (b >= 0) evict.cost.copies += static_cast<int>(builder_.plan.parameters_in(b).size()) - 1;
}

REEF_INLINE void Swapper::write_back(int s, int version) {
  if (!schedule_.writes_back || weights_.empty()) return;
  std::vector<Value> back;
  for (const Value& part : weights_) {
    const schedule::Storage storage = program_.storages[part.storage];
    back.push_back(
        {program_.add_storage(storage.name + ", written back", storage.bytes, Place::host), 0});
  }
  move(kinds::write_back, leaving(), s, weights_, back);
  drop(s, weights_);
  swap_slots().weights.forget(s, version);
}

REEF_INLINE void Swapper::drop(int s, std::vector<Value> parts) {
  if (!builder_.plan.poisons_dead_memory || parts.empty()) return;
  program_.round.push_back(drop_of(Lane::compute, s, std::move(parts)));
}

REEF_INLINE void Swapper::move(std::string_view kind, Lane lane, int s, const std::vector<Value>& from,
          const std::vector<Value>& to) {
  Instruction& instruction = program_.add(kind, lane, s);
  run::CopyView(instruction, from, to);
  add_copies(instruction.cost, program_, from);
}

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef
