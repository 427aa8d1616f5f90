#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/matching.hpp>
#include <reef/schedule/detail/simulator.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/transfer_order.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

namespace detail {

/// By instruction: the first and the last one behind it that read what it writes, or come after it, before something
/// else writes the region; {size, size} of the round if there is none.
inline std::vector<std::pair<std::size_t, std::size_t>> readers_of(const Program& program) {
  const std::size_t none = program.round.size();
  std::vector<std::pair<std::size_t, std::size_t>> readers(none, {none, none});
  std::vector<std::size_t> writer(program.storages.size(), none);
  for (std::size_t i = 0; i < program.round.size(); ++i) {
    const Instruction& instruction = program.round[i];
    for (const auto* list : {&instruction.reads, &instruction.accumulates, &instruction.after}) {
      for (const Value value : *list) {
        const std::size_t by = writer[program.region_of(value.storage).first];
        if (by == none) continue;
        if (readers[by].first == none) readers[by].first = i;
        readers[by].second = i;
      }
    }
    for (const Value value : instruction.writes) {
      writer[program.region_of(value.storage).first] = i;
    }
  }
  return readers;
}

}  // namespace detail

REEF_INLINE std::vector<FreeTransfer> free_transfers(std::span<const Program> programs,
                                                const World& world) {
  detail::check_structure(programs);
  std::vector<Dependencies> dependencies;
  for (const Program& program : programs) {  // where no two regions share bytes
    dependencies.push_back(detail::derive_at(program, detail::addresses_by_region(program), true));
  }
  detail::Simulator simulator(programs, dependencies, world, 1, {}, true);
  const Simulation times = simulator.run();
  std::map<int, std::size_t> place;
  std::vector<std::vector<std::pair<Seconds, Seconds>>> ran;
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> readers;
  std::vector<std::vector<std::uint32_t>> scopes;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    place[programs[r].rank] = r;
    ran.emplace_back(programs[r].round.size());
    readers.push_back(detail::readers_of(programs[r]));
    scopes.push_back(scope_by_instruction(programs[r]));
  }
  for (const SimulatedSpan& span : times.spans) {
    ran[place[span.rank]][span.instruction] = {span.begin, span.end};
  }

  std::vector<FreeTransfer> transfers;
  const auto ends = detail::match_messages(programs);
  const auto moved = simulator.moved();
  for (std::size_t m = 0; m < ends.size(); ++m) {
    const auto& [send, receive] = ends[m];
    const Instruction& sending = programs[send.rank].round[send.instruction];
    const Instruction& receiving = programs[receive.rank].round[receive.instruction];
    if (sending.is_posted() != receiving.is_posted()) {
      throw ScheduleError("reef::schedule: ", detail::who(programs[send.rank], sending), " and ",
                          detail::who(programs[receive.rank], receiving),
                          " are not both posted.\n  why: only posted transfers have the order of "
                          "production.\n  fix: both posted, or both held.");
    }
    if (!sending.is_posted()) continue;
    if (scopes[send.rank][send.instruction] != 0) {
      throw ScheduleError("reef::schedule: ", detail::who(programs[send.rank], sending),
                          " is in a loop.\n  why: there is no order of production of what is sent again and again.\n"
                          "  fix: the order of a timetable, as pipelines write it, which holds for each iteration.");
    }
    const auto [first, last] = readers[receive.rank][receive.instruction];
    const Seconds arrived = moved[m].arrived;
    const bool read = first < ran[receive.rank].size();
    transfers.push_back({.sender = send.rank,
                         .send = send.instruction,
                         .receiver = receive.rank,
                         .receive = receive.instruction,
                         .produced = ran[send.rank][send.instruction].first,
                         .left = moved[m].left,
                         .arrived = arrived,
                         .landed = read ? ran[receive.rank][first].first : arrived,
                         .released = read ? ran[receive.rank][last].second : arrived});
  }
  std::sort(transfers.begin(), transfers.end(), [&](const auto& a, const auto& b) {
    return std::tuple(a.produced, programs[a.sender].rank, a.send) <
           std::tuple(b.produced, programs[b.sender].rank, b.send);
  });
  return transfers;
}

REEF_INLINE TransferSlots transfer_slots(std::span<const Program> programs,
                                    std::span<const FreeTransfer> transfers, SlotUse use) {
  TransferSlots result;
  std::map<TransferEdge, std::vector<Seconds>> free;  // by slot: from when on
  for (const FreeTransfer& t : transfers) {           // in the order of production
    const Instruction& receive = programs[t.receiver].round[t.receive];
    const TransferEdge edge{programs[t.sender].rank, programs[t.receiver].rank, receive.index,
                            receive.traffic};
    std::vector<Seconds>& free_slots = free[edge];
    const auto slot = std::find_if(free_slots.begin(), free_slots.end(),
                                   [&](Seconds since) { return since <= t.produced; });
    result.of_transfer.push_back(static_cast<int>(slot - free_slots.begin()));
    const Seconds until = use == SlotUse::to_landing ? t.landed : t.released;
    if (slot == free_slots.end()) {
      free_slots.push_back(until);
    } else {
      *slot = until;
    }
    result.of_edge[edge] = static_cast<int>(free_slots.size());
  }
  return result;
}

namespace detail {

/// By instruction of a round and by what it reads, adds to and comes after: who has written the region before it.
inline std::vector<std::vector<std::size_t>> writers_of(const Program& program) {
  std::vector<std::size_t> writer(program.storages.size(), program.round.size());
  std::vector<std::vector<std::size_t>> result;
  for (std::size_t i = 0; i < program.round.size(); ++i) {
    const Instruction& instruction = program.round[i];
    auto& of_instruction = result.emplace_back();
    for (const auto* list : {&instruction.reads, &instruction.accumulates, &instruction.after}) {
      for (const Value value : *list) {
        of_instruction.push_back(writer[program.region_of(value.storage).first]);
      }
    }
    for (const auto* list : {&instruction.writes, &instruction.accumulates}) {
      for (const Value value : *list) writer[program.region_of(value.storage).first] = i;
    }
  }
  return result;
}

}  // namespace detail

REEF_INLINE void order_transfers(std::span<Program> programs, const World& world) {
  const std::vector<FreeTransfer> transfers = free_transfers(programs, world);
  for (std::size_t r = 0; r < programs.size(); ++r) {
    Program& program = programs[r];
    // By place in the old round: what comes ahead of it, and what comes behind it.
    const std::size_t count = program.round.size();
    std::vector<std::vector<std::size_t>> ahead(count + 1);
    std::vector<std::vector<std::size_t>> behind(count + 1);
    std::vector<bool> moves(count, false);

    std::size_t after = 0;
    std::vector<std::size_t> receives;
    for (const FreeTransfer& t : transfers) {
      if (t.sender == r && !moves[t.send]) {
        moves[t.send] = true;
        after = (std::max)(after, t.send);
        behind[after].push_back(t.send);
      }
      if (t.receiver == r && program.round[t.receive].is_posted() && !moves[t.receive]) {
        moves[t.receive] = true;
        receives.push_back(t.receive);
      }
    }
    const auto readers = detail::readers_of(program);
    const std::vector<std::uint32_t> loops = loop_by_instruction(program);
    std::size_t before = count;
    for (auto receive = receives.rbegin(); receive != receives.rend(); ++receive) {
      before = (std::min)(before, readers[*receive].first);
      if (before < count && loops[before] != no_loop) before = program.repeats[loops[before]].begin;
      ahead[before].push_back(*receive);
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i <= count; ++i) {
      order.insert(order.end(), ahead[i].rbegin(), ahead[i].rend());
      if (i < count && !moves[i]) order.push_back(i);
      order.insert(order.end(), behind[i].begin(), behind[i].end());
    }
    const auto writers = detail::writers_of(program);
    std::vector<std::uint32_t> now_at(count);
    std::vector<Instruction> round;
    for (const std::size_t i : order) {
      now_at[i] = static_cast<std::uint32_t>(round.size());
      round.push_back(std::move(program.round[i]));
    }
    program.round = std::move(round);
    const auto now = detail::writers_of(program);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < writers[i].size(); ++k) {
        const std::size_t before_it = writers[i][k] == count ? count : now_at[writers[i][k]];
        const std::size_t now_before_it = now[now_at[i]][k];
        if (before_it == now_before_it) continue;
        throw ScheduleError(
            "reef::schedule::order_transfers: ", detail::who(program, program.round[now_at[i]]),
            " would read what ",
            now_before_it == count ? std::string("nobody has written")
                                   : detail::who(program, program.round[now_before_it]) + " writes",
            " there.\n  why: in the order of production that comes first, and a slot is still in use.\n"
            "  fix: slots as transfer_slots says, or a place for each message.");
      }
    }
    for (Repeat& repeat : program.repeats) {
      repeat.move([&](std::uint32_t i) { return now_at[i]; });
    }
  }
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
