#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule::detail {

/// For every storage, the storages that share bytes with it, itself included.
using Overlaps = std::vector<std::vector<StorageId>>;

/// The storages that instructions name, and those that hold a value before any does.
inline std::vector<bool> used_storages(const Program& program) {
  std::vector<bool> used(program.storages.size(), false);
  for (std::size_t id = 0; id < used.size(); ++id) {
    used[id] =
        program.storages[id].life == Life::persistent && program.storages[id].parent == no_storage;
  }
  for (const Instruction& instruction : program.round) {
    for (const auto* list : {&instruction.reads, &instruction.writes, &instruction.accumulates}) {
      for (const Value value : *list) used[value.storage] = true;
    }
  }
  return used;
}

/// Of the storages that are used.
inline Overlaps overlaps_of(const Program& program, const Placement& placement) {
  struct Interval {
    Bytes begin;
    StorageId id;
  };
  const std::vector<bool> used = used_storages(program);
  const std::vector<Bytes> addresses = placement.addresses(program);
  std::vector<Interval> intervals;
  Overlaps result(program.storages.size());
  for (StorageId id = 0; id < used.size(); ++id) {
    if (!used[id]) continue;
    result[id].push_back(id);
    if (program.storages[id].bytes != 0) intervals.push_back({addresses[id], id});
  }
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const Bytes end = intervals[i].begin + program.storages[intervals[i].id].bytes;
    for (std::size_t j = i + 1; j < intervals.size() && intervals[j].begin < end; ++j) {
      result[intervals[i].id].push_back(intervals[j].id);
      result[intervals[j].id].push_back(intervals[i].id);
    }
  }
  return result;
}

/// Every read finds the version that it names, whole and written; what persists gets ever newer.
///
/// Writing a storage makes stale whatever else lies in those bytes: the parts and wholes that
/// overlap it, and what was there before in a reused place. Behind a loop there is only what is there
/// after no turn as well as after some.
class ValueChecker {
public:
  ValueChecker(const Program& program, const Placement& placement)
      : program_(program),
        overlaps_(overlaps_of(program, placement)),
        held_(program.storages.size()) {
    for (std::size_t id = 0; id < held_.size(); ++id) {
      if (program.storages[id].life == Life::persistent &&
          program.storages[id].parent == no_storage) {
        held_[id] = {true, 0, nullptr, false};
      }
    }
  }

  void run() {
    std::size_t next = 0;
    for (const Repeat& repeat : program_.repeats) {
      walk(next, repeat.begin);
      const std::vector<Held> found = held_;
      walk(repeat.begin, repeat.end);
      again_ = true;  // finds what a turn left, and so leaves what any later one does
      walk(repeat.begin, repeat.end);
      again_ = false;
      meet(found);
      next = repeat.end;
    }
    walk(next, program_.round.size());
    check_exit();
  }

private:
  struct Held {
    bool valid = false;
    int version = -1;  ///< the last, whole or not
    const Instruction* overwritten_by = nullptr;
    bool by_turns = false;  ///< it is there or not, by how many turns a loop runs
  };

  void walk(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Instruction& instruction = program_.round[i];
      for (const Value value : instruction.reads) require(instruction, value, "reads");
      for (const Value value : instruction.accumulates)
        require(instruction, value, "accumulates into");
      for (const Value value : instruction.writes) write(instruction, value, false);
      for (const Value value : instruction.accumulates) write(instruction, value, true);
    }
  }

  /// What holds after no turn, as it was found, and after some.
  void meet(const std::vector<Held>& found) {
    for (std::size_t id = 0; id < held_.size(); ++id) {
      Held& held = held_[id];
      const Held& before = found[id];
      if (held.valid == before.valid && held.version == before.version) continue;
      held = {false, held.version, held.overwritten_by, held.valid};
    }
  }

  [[nodiscard]] std::string prefix(const Instruction& instruction) const {
    return concat("reef::schedule::verify: ", who(program_, instruction),
                  again_ ? ", in the second turn of a loop, " : " ");
  }

  void require(const Instruction& instruction, Value value, std::string_view verb) const {
    const Held& held = held_[value.storage];
    if (held.valid && held.version == value.version) return;
    const std::string what = concat(prefix(instruction), verb, " ", program_.name(value));
    if (held.valid) {
      throw ScheduleError(what, " version ", value.version, ", but version ", held.version,
                          " is there.\n  fix: that version, or come before what wrote it.");
    }
    if (held.overwritten_by != nullptr) {
      throw ScheduleError(what, ", whose bytes ", held.overwritten_by->text(),
                          " has overwritten.\n  fix: use it before that, or bytes of its own.");
    }
    if (held.by_turns) {
      throw ScheduleError(what,
                          ", which is there or not by how many turns a loop runs: it may run "
                          "none.\n  fix: write it before the loop too.");
    }
    throw ScheduleError(what,
                        ", which nothing has written.\n  fix: write it before, or let it persist.");
  }

  void write(const Instruction& instruction, Value value, bool adds) {
    const Held& held = held_[value.storage];
    const bool persists = program_.storages[value.storage].life == Life::persistent;
    if (persists && !adds && value.version <= held.version) {
      throw ScheduleError(prefix(instruction), "writes ", program_.name(value), " version ",
                          value.version, ", but version ", held.version,
                          " is there already.\n  fix: a version above it.");
    }
    for (const StorageId other : overlaps_[value.storage]) {
      if (other != value.storage) held_[other] = {false, held_[other].version, &instruction, false};
    }
    held_[value.storage] = {true, value.version, nullptr, false};
  }

  /// What persists is whole again, so the next round can begin where this one did.
  void check_exit() const {
    for (std::size_t id = 0; id < held_.size(); ++id) {
      const Storage& storage = program_.storages[id];
      if (storage.life != Life::persistent || storage.parent != no_storage || held_[id].valid)
        continue;
      throw ScheduleError("reef::schedule::verify: rank ", program_.rank, ": ", storage.name,
                          " persists, but after ", held_[id].overwritten_by->text(),
                          " only a part of it is written when the round ends.\n"
                          "  fix: write the whole again, or a part that nothing else shares.");
    }
  }

  const Program& program_;
  Overlaps overlaps_;
  std::vector<Held> held_;
  bool again_ = false;
};

}  // namespace reef::inline v0::schedule::detail
