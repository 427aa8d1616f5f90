#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/schedule/detail/structure_checker.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

REEF_INLINE void StructureChecker::run() {
  for (StorageId id = 0; id < program_.storages.size(); ++id) check_storage(id);
  for (const Instruction& instruction : program_.round) check_instruction(instruction);
  check_loops();
}

REEF_INLINE void StructureChecker::check_instruction(const Instruction& instruction) {
  if (static_cast<std::size_t>(instruction.lane) >= lane_count) {
    throw ScheduleError("reef::schedule::verify: rank ", program_.rank, ": ", instruction.text(),
                        " is on no lane that there is.\n  fix: one of schedule::Lane.");
  }
  const Cost& cost = instruction.cost;
  require_that(
      is_finite(cost.seconds) && is_finite(cost.flops) && cost.flops >= 0 && cost.copies >= 0,
      instruction,
      "costs what no clock can show.\n"
      "  fix: finite numbers, and flops and copies of 0 or more");
  std::vector<StorageId> changed;
  for_each_value(instruction, [&](const Value value) {
    require_that(value.storage < program_.storages.size(), instruction, "names storage ",
                 value.storage, ", which does not exist.\n  fix: an id that add_storage gave");
    require_that(value.version >= 0, instruction, "names version ", value.version, " of ",
                 program_.name(value), ".\n  fix: 0 or more");
  });
  for (const auto* list : {&instruction.writes, &instruction.accumulates}) {
    for (const Value value : *list) changed.push_back(value.storage);
  }
  std::sort(changed.begin(), changed.end());
  require_that(std::adjacent_find(changed.begin(), changed.end()) == changed.end(), instruction,
               "changes a storage twice.\n  fix: name it once, or in two instructions");
  require_that(instruction.completion <= Completion::posted &&
                   (!instruction.is_posted() || instruction.lane == Lane::send ||
                    instruction.lane == Lane::receive),
               instruction, "is posted on lane ", name_of(instruction.lane),
               ".\n  why: only a transfer starts at one time and is complete at another.\n"
               "  fix: lane send or receive, or Completion::held");
  const bool sends = instruction.lane == Lane::send;
  require_that(
      !instruction.is_posted() || (instruction.sends.size() == (sends ? 1U : 0U) &&
                                   instruction.receives.size() == (sends ? 0U : 1U) &&
                                   (sends ? instruction.writes : instruction.reads).empty() &&
                                   (sends || instruction.after.empty()) &&
                                   instruction.accumulates.empty()),
      instruction,
      "is posted, but is no transfer of one message.\n"
      "  why: it completes as its message does.\n"
      "  fix: one send that only reads, or one receive that only writes; or Completion::held");
  check_messages(instruction);
}

REEF_INLINE void StructureChecker::check_storage(StorageId id) {
  const Storage& storage = program_.storages[id];
  require_that(storage.place <= Place::host && storage.life <= Life::persistent, storage,
               "has no place or no life that there is.\n  fix: those of schedule::Place and Life");
  constexpr Bytes most = Bytes{1} << 60;
  constexpr std::string_view smaller = ".\n  fix: bytes that a memory can have";
  require_that(storage.bytes <= most && storage.offset <= most, storage,
               "is larger than any memory", smaller);
  total_ += storage.parent == no_storage ? storage.bytes : 0;
  require_that(total_ <= most, storage, "and those before it are larger than any memory", smaller);
  if (storage.parent == no_storage) return;
  require_that(storage.parent < id, storage,
               "comes before the storage that it is a part of.\n  fix: add the whole first");
  const Storage& whole = program_.storages[storage.parent];
  require_that(storage.offset <= whole.bytes && storage.bytes <= whole.bytes - storage.offset &&
                   storage.place == whole.place,
               storage, "does not lie inside ", whole.name,
               ".\n  fix: an offset, bytes and place that do");
}

REEF_INLINE void StructureChecker::check_messages(const Instruction& instruction) {
  const auto check_lanes = [&](const std::vector<Message>& messages,
                               std::map<std::pair<int, std::uint32_t>, Lane>& lanes) {
    for (const Message& message : messages) {
      require_that(communicates(instruction.lane), instruction,
                   "has messages, but its lane carries none.\n  fix: lane send, receive or reduce");
      require_that(message.peer >= 0 && message.peer < ranks_ && message.peer != program_.rank,
                   instruction, "exchanges with rank ", message.peer, ", which is no other of ",
                   ranks_, " ranks.\n  fix: a rank of these, but not its own");
      const auto [entry, is_new] =
          lanes.emplace(std::pair{message.peer, message.channel}, instruction.lane);
      require_that(is_new || entry->second == instruction.lane, instruction,
                   "uses a channel that another lane uses too.\n"
                   "  why: nothing orders messages of two lanes.\n  fix: a channel for each lane");
    }
  };
  check_lanes(instruction.sends, send_lanes_);
  check_lanes(instruction.receives, receive_lanes_);
}

REEF_INLINE void StructureChecker::check_loops() const {
  std::uint32_t free = 0;  // the first instruction behind the loops so far
  for (const Repeat& repeat : program_.repeats) {
    require_that(repeat.begin < repeat.end && repeat.end <= program_.round.size(), repeat,
                 "has no body in a round of ", program_.round.size(),
                 ".\n  fix: begin < end <= the instructions of the round");
    require_that(repeat.begin >= free, repeat,
                 "begins in or before another.\n  fix: loops one after the other, ascending");
    free = repeat.end;
    require_that(repeat.max >= 0, repeat, "has at most ", repeat.max,
                 " iterations.\n  fix: 0 for no limit, or more");
    require_that(repeat.expected >= 0 && (repeat.expected == 0 || !repeat.is_shared()), repeat, "is expected to have ",
                 repeat.expected, " iterations", repeat.is_shared() ? ", and shared" : "",
                 ".\n  fix: 0 for a loop that ends with an instruction, as a shared one does; else 1 or more");
    const auto body = std::span(program_.round).subspan(repeat.begin, repeat.end - repeat.begin);
    require_that(body.back().lane == Lane::compute, repeat, "ends on lane ",
                 name_of(body.back().lane),
                 ".\n  why: the lane of a body's last instruction asks for more iterations.\n"
                 "  fix: end it with an instruction on lane compute");
    if (repeat.is_shared()) check_shared(repeat, body);
    for (const Instruction& instruction : body) {
      const bool exchanges = !instruction.sends.empty() || !instruction.receives.empty();
      require_that(repeat.is_shared() || (!exchanges && !instruction.is_posted()), repeat,
                   "exchanges messages in ", instruction.text(),
                   ".\n  why: no other rank knows how many iterations this one runs.\n"
                   "  fix: exchange them outside the loop, or share it: Repeat::agree");
    }
    const bool in_body =
        std::any_of(program_.repeats.begin(), program_.repeats.end(), [&](const Repeat& other) {
          return other.begin <= repeat.until && repeat.until < other.end;
        });
    require_that(repeat.until < repeat.begin && !in_body, repeat,
                 "waits for what does not come before it.\n"
                 "  why: in the order of the program, the reference, it would never end.\n"
                 "  fix: until an instruction before the body, in no other");
  }
}

REEF_INLINE void StructureChecker::check_shared(const Repeat& repeat, std::span<const Instruction> body) const {
  const std::uint32_t before = repeat.first_agree;
  require_that(before < repeat.begin && repeat.begin <= repeat.agree && repeat.agree < repeat.end,
               repeat, "agrees in ", before, " and ", repeat.agree,
               ".\n  fix: in one instruction before the body, and in one of the body");
  const auto in_body = [&](const Repeat& other) { return other.begin <= before && before < other.end; };
  require_that(std::none_of(program_.repeats.begin(), program_.repeats.end(), in_body), repeat,
               "first agrees in ", before,
               ", which is in the body of another.\n  fix: an instruction in no loop");
  const auto peers_of = [](const std::vector<Message>& messages) {
    std::set<int> peers;
    for (const Message& message : messages) peers.insert(message.peer);
    return peers;
  };
  const std::set<int> peers = peers_of(program_.round[before].sends);
  for (const std::uint32_t at : {before, repeat.agree}) {
    const Instruction& agree = program_.round[at];
    require_that(!agree.sends.empty() && !agree.is_posted() && peers_of(agree.sends) == peers &&
                     peers_of(agree.receives) == peers,
                 repeat, "agrees in ", agree.text(),
                 ", which is no exchange with all that share the loop.\n"
                 "  fix: one that is held, with messages to and from each of them, before the body "
                 "and in it the same");
    require_that(agree.lane == program_.round[before].lane, repeat, "agrees in ", agree.text(),
                 ", and before on lane ", name_of(program_.round[before].lane),
                 ".\n  fix: both on one lane");
  }
  for (const Instruction& instruction : body) {
    for (const auto* messages : {&instruction.sends, &instruction.receives}) {
      for (const Message& message : *messages) {
        require_that(
            peers.contains(message.peer), repeat, "exchanges messages with rank ", message.peer,
            " in ", instruction.text(),
            ".\n  why: it does not share the loop, so it does not know how many there are.\n"
            "  fix: agree with it too, or exchange them outside the loop");
      }
    }
  }
}

REEF_INLINE void check_structure(std::span<const Program> programs) {
  std::vector<bool> seen(programs.size(), false);
  for (const Program& program : programs) {
    const bool is_new = program.rank >= 0 &&
                        static_cast<std::size_t>(program.rank) < programs.size() &&
                        !seen[static_cast<std::size_t>(program.rank)];
    if (!is_new) {
      throw ScheduleError("reef::schedule::verify: ", programs.size(),
                          " programs are those of ranks 0 to ", programs.size() - 1,
                          ", each once; one is of rank ", program.rank,
                          ".\n  fix: build one for each rank.");
    }
    seen[static_cast<std::size_t>(program.rank)] = true;
    StructureChecker(program, static_cast<int>(programs.size())).run();
  }
}

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
