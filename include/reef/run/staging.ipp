#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/run/staging.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

REEF_INLINE schedule::Program Stager::run() {
  round_.swap(program_.round);
  program_.round.reserve(round_.size() + round_.size() / 8);  // and what is put between
  // By its old place: where an instruction stands, and where begins what became of it.
  std::vector<std::uint32_t> itself;
  std::vector<std::uint32_t> first;
  const auto here = [&] { return static_cast<std::uint32_t>(program_.round.size()); };
  for (std::uint32_t i = 0; i < round_.size(); ++i) {
    schedule::Instruction& instruction = round_[i];
    if (borders_loop(i)) current_.assign(current_.size(), {});
    first.push_back(here());
    for (auto late = late_.find(i); late != late_.end(); late = late_.find(i)) {
      program_.round.push_back(std::move(late->second));
      late_.erase(late);
    }
    if (!schedule::communicates(instruction.lane)) {
      forget(instruction);
      itself.push_back(here());
      program_.round.push_back(std::move(instruction));
      continue;
    }
    const auto [lane, before] = upload_point_of(i);
    schedule::Instruction download = transfer(kinds::download, schedule::Lane::evict, instruction);
    for (schedule::Value& value : instruction.reads) fetch(value, download);
    for (schedule::Value& value : instruction.accumulates) fetch(value, download);
    for (schedule::Value& value : instruction.after) wait_on_host(value);
    if (copies_something(download)) program_.round.push_back(std::move(download));

    schedule::Instruction upload = transfer(kinds::upload, lane, instruction);
    for (schedule::Value& value : instruction.writes) bring(value, upload);
    for (const schedule::Value value : instruction.accumulates) give_back(value, upload);
    itself.push_back(here());
    program_.round.push_back(std::move(instruction));
    if (!copies_something(upload)) continue;
    if (before == i + 1) {
      program_.round.push_back(std::move(upload));
    } else {
      late_.emplace(before, std::move(upload));
    }
  }
  first.push_back(here());
  for (schedule::Repeat& repeat : program_.repeats) {
    repeat.begin = first[repeat.begin];
    repeat.end = first[repeat.end];
    repeat.until = itself[repeat.until];
    if (!repeat.is_shared()) continue;
    repeat.first_agree = itself[repeat.first_agree];
    repeat.agree = itself[repeat.agree];
  }
  return std::move(program_);
}

REEF_INLINE void Stager::watch() {
  std::vector<bool> regions(program_.storages.size());
  for (const schedule::Instruction& instruction : program_.round) {
    if (!schedule::communicates(instruction.lane)) continue;
    for (const auto* list : {&instruction.reads, &instruction.accumulates, &instruction.after}) {
      for (const schedule::Value value : *list) regions[program_.region_of(value.storage).first] = true;
    }
  }
  for (schedule::StorageId id = 0; id < regions.size(); ++id) {
    watched_.push_back(regions[program_.region_of(id).first]);
  }
}

REEF_INLINE Stager::UploadPoint Stager::upload_point_of(std::uint32_t i) const {
  const UploadPoint at_once{schedule::Lane::load, i + 1};
  const bool late = round_[i].lane == schedule::Lane::reduce || round_[i].is_posted();
  if (!late || !round_[i].changes_values() || in_loop(i)) return at_once;
  std::uint32_t use = i + 1;
  while (use < round_.size() && !touches(round_[use], round_[i])) ++use;
  if (use == round_.size() || in_loop(use)) return at_once;
  if (round_[use].lane == schedule::Lane::update) return {schedule::Lane::update, i + 1};
  return {schedule::Lane::load, use};
}

REEF_INLINE bool Stager::in_loop(std::uint32_t i) const {
  return std::any_of(
      program_.repeats.begin(), program_.repeats.end(),
      [i](const schedule::Repeat& repeat) { return repeat.begin <= i && i < repeat.end; });
}

REEF_INLINE bool Stager::touches(const schedule::Instruction& one,
                                 const schedule::Instruction& other) const {
  for (const auto* written : {&other.writes, &other.accumulates}) {
    for (const schedule::Value w : *written) {
      const Extent bytes = extent_of(w.storage);
      bool found = false;
      schedule::for_each_value(one, [&](const schedule::Value value) {
        found = found || value.storage == w.storage || bytes.overlaps(extent_of(value.storage));
      });
      if (found) return true;
    }
  }
  return false;
}

REEF_INLINE bool Stager::borders_loop(std::uint32_t i) const {
  return std::any_of(
      program_.repeats.begin(), program_.repeats.end(),
      [i](const schedule::Repeat& repeat) { return i == repeat.begin || i == repeat.end; });
}

REEF_INLINE schedule::Instruction Stager::transfer(std::string_view kind, schedule::Lane lane,
                                      const schedule::Instruction& of) {
  schedule::Instruction result;
  result.kind = kind;
  result.lane = lane;
  result.index = of.index;
  result.micro_batch = of.micro_batch;
  return result;
}

REEF_INLINE schedule::StorageId Stager::twin(schedule::StorageId id) {
  if (const auto found = twins_.find(id); found != twins_.end()) return found->second;
  const schedule::Storage original = program_.storages[id];
  const std::string name = original.name + " on the host";
  schedule::StorageId copy = schedule::no_storage;
  if (original.parent == schedule::no_storage) {
    // A twin never holds a value from round to round, only its region's bytes.
    copy =
        program_.add_storage(name, original.bytes, schedule::Place::host,
                             original.life == schedule::Life::round ? schedule::Life::round
                                                                    : schedule::Life::reserved);
  } else {
    copy = program_.add_part(name, twin(original.parent), original.offset, original.bytes);
  }
  twins_[id] = copy;
  originals_[copy] = id;
  return copy;
}

REEF_INLINE void Stager::fetch(schedule::Value& value, schedule::Instruction& download) {
  if (!on_device(value.storage)) return;
  const schedule::Value host{twin(value.storage), value.version};
  if (!is_current(value)) {
    add_copied(download, value, host);
    add_copy(download, value.storage);
    become_current(value);
  }
  value = host;
}

REEF_INLINE void Stager::wait_on_host(schedule::Value& value) {
  if (on_device(value.storage) && is_current(value)) value.storage = twin(value.storage);
}

REEF_INLINE void Stager::bring(schedule::Value& value, schedule::Instruction& upload) {
  if (!on_device(value.storage)) return;
  const schedule::Value host{twin(value.storage), value.version};
  add_copied(upload, host, value);
  add_copy(upload, value.storage);
  note_write(value.storage);
  become_current(value);
  value = host;
}

REEF_INLINE void Stager::give_back(schedule::Value host, schedule::Instruction& upload) {
  const auto found = originals_.find(host.storage);
  if (found == originals_.end()) return;
  add_copied(upload, host, {found->second, host.version});
  add_copy(upload, host.storage);
  note_write(found->second);
  become_current({found->second, host.version});
}

REEF_INLINE void Stager::forget(const schedule::Instruction& instruction) {
  for (const auto* list : {&instruction.writes, &instruction.accumulates}) {
    for (const schedule::Value value : *list) note_write(value.storage);
  }
}

REEF_INLINE bool Stager::is_current(schedule::Value value) const {
  const TwinState& held = current_[value.storage];
  return held.version == value.version &&
         writers_.last_time(range_of(value.storage)) <= held.since;
}

}  // namespace detail

}  // namespace run
}  // namespace v0
}  // namespace reef
