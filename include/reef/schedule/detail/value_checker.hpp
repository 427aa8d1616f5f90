#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/first_fit.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/schedule/detail/last_writers.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

/// Every read, and every wait, finds the version that it names, whole and written; what persists gets ever newer.
///
/// Writing a storage makes stale whatever else lies in those bytes: the parts and wholes that
/// overlap it, and what was there before in a reused place. Behind a loop there is only what is there
/// after no iteration as well as after some.
class ValueChecker {
public:
  ValueChecker(const Program& program, const Placement& placement)
      : program_(program),
        addresses_(placement.addresses(program)),
        held_(program.storages.size()) {
    for (StorageId id = 0; id < held_.size(); ++id) {
      if (program.storages[id].life == Life::persistent &&
          program.storages[id].parent == no_storage) {
        held_[id] = {true, 0, false};
        writers_.write(range_of(id), id, nullptr);
      }
    }
  }

  void run() {
    std::size_t next = 0;
    for (const Repeat& repeat : program_.repeats) {
      walk(next, repeat.begin);
      const std::vector<Held> found = held_now();
      walk(repeat.begin, repeat.end);
      again_ = true;  // finds what an iteration left, and so leaves what any later one does
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
    bool valid = false;     ///< unless others have written its bytes since
    int version = -1;       ///< the last, whole or not
    bool by_iterations = false;  ///< it is there or not, by how many iterations a loop runs
  };

  [[nodiscard]] ByteRange range_of(StorageId id) const {
    return {addresses_[id], addresses_[id] + program_.storages[id].bytes};
  }
  [[nodiscard]] bool holds(StorageId id) const {
    return held_[id].valid && writers_.holds(range_of(id), id);
  }
  [[nodiscard]] std::vector<Held> held_now() const {
    std::vector<Held> result = held_;
    for (StorageId id = 0; id < result.size(); ++id) result[id].valid = holds(id);
    return result;
  }

  void walk(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Instruction& instruction = program_.round[i];
      for (const Value value : instruction.after) require_value(instruction, value, "waits for");
      for (const Value value : instruction.reads) require_value(instruction, value, "reads");
      for (const Value value : instruction.accumulates)
        require_value(instruction, value, "accumulates into");
      for (const Value value : instruction.writes) write(instruction, value, false);
      for (const Value value : instruction.accumulates) write(instruction, value, true);
    }
  }

  /// What holds after no iteration, as it was found, and after some.
  void meet(const std::vector<Held>& found) {
    const std::vector<Held> now = held_now();
    for (StorageId id = 0; id < held_.size(); ++id) {
      if (now[id].valid == found[id].valid && now[id].version == found[id].version) continue;
      held_[id] = {false, now[id].version, now[id].valid};
    }
  }

  [[nodiscard]] std::string prefix(const Instruction& instruction) const {
    return concat("reef::schedule::verify: ", who(program_, instruction),
                  again_ ? ", in the second iteration of a loop, " : " ");
  }

  void require_value(const Instruction& instruction, Value value, std::string_view verb) const {
    const Held& held = held_[value.storage];
    const bool valid = holds(value.storage);
    if (valid && held.version == value.version) return;
    const std::string what = concat(prefix(instruction), verb, " ", program_.name(value));
    if (valid) {
      throw ScheduleError(what, " version ", value.version, ", but version ", held.version,
                          " is there.\n  fix: that version, or come before what wrote it.");
    }
    const Instruction* const by = writers_.last_other(range_of(value.storage), value.storage);
    if (by != nullptr) {
      throw ScheduleError(what, ", whose bytes ", by->text(),
                          " has overwritten.\n  fix: use it before that, or bytes of its own.");
    }
    if (held.by_iterations) {
      throw ScheduleError(what,
                          ", which is there or not by how many iterations a loop runs: it may run "
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
    writers_.write(range_of(value.storage), value.storage, &instruction);
    held_[value.storage] = {true, value.version, false};
  }

  /// What persists is whole again, so the next round can begin where this one did.
  void check_exit() const {
    for (StorageId id = 0; id < held_.size(); ++id) {
      const Storage& storage = program_.storages[id];
      if (storage.life != Life::persistent || storage.parent != no_storage || holds(id)) continue;
      const Instruction* const by = writers_.last_other(range_of(id), id);
      throw ScheduleError("reef::schedule::verify: rank ", program_.rank, ": ", storage.name,
                          " persists, but after ", by != nullptr ? by->text() : "a loop",
                          " only a part of it is written when the round ends.\n"
                          "  fix: write the whole again, or a part that nothing else shares.");
    }
  }

  const Program& program_;
  std::vector<Bytes> addresses_;
  LastWriters writers_;
  std::vector<Held> held_;
  bool again_ = false;
};

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
