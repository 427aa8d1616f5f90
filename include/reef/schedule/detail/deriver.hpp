#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule::detail {

/// What is known to be complete, by lane: the position of the last instruction.
using Clock = std::array<std::int64_t, lane_count>;

/// Of a time before every instruction.
constexpr Clock before_all() {
  Clock clock{};
  clock.fill(-1);
  return clock;
}

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

/// Overlaps by address: `begin_of(id)` is where a used storage begins, in a space of its place.
template <class BeginOf>
Overlaps overlaps_by_address(const Program& program, const BeginOf& begin_of) {
  struct Interval {
    std::pair<std::uint64_t, Bytes> begin;  // the space, and where in it
    StorageId id;
  };
  const std::vector<bool> used = used_storages(program);
  std::vector<Interval> intervals;
  Overlaps result(program.storages.size());
  for (StorageId id = 0; id < used.size(); ++id) {
    if (!used[id]) continue;
    result[id].push_back(id);
    if (program.storages[id].bytes != 0) intervals.push_back({begin_of(id), id});
  }
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const auto [space, begin] = intervals[i].begin;
    const Bytes end = begin + program.storages[intervals[i].id].bytes;
    for (std::size_t j = i + 1; j < intervals.size(); ++j) {
      if (intervals[j].begin.first != space || intervals[j].begin.second >= end) break;
      result[intervals[i].id].push_back(intervals[j].id);
      result[intervals[j].id].push_back(intervals[i].id);
    }
  }
  return result;
}

/// Overlaps of parts and wholes alone, before regions have places.
inline Overlaps overlaps_by_region(const Program& program) {
  return overlaps_by_address(program, [&](StorageId id) {
    const auto [region, offset] = program.region_of(id);
    return std::pair<std::uint64_t, Bytes>(region, offset);
  });
}

/// Walks rounds in program order and finds, for each instruction, the least set of waits that orders
/// every two accesses to the same bytes of which one writes.
///
/// A loop counts as one: from outside, its last instruction stands for its body.
class Deriver {
public:
  Deriver(const Program& program, const Overlaps& overlaps, std::int64_t rounds)
      : program_(program),
        overlaps_(overlaps),
        loops_(loop_by_instruction(program)),
        history_(program.storages.size()),
        clocks_(static_cast<std::size_t>(rounds) * program.round.size()) {}

  /// The positions that the instruction at position `i`, counted over rounds, waits for. Called once
  /// for each position, ascending.
  std::vector<std::int64_t> step(std::int64_t i) {
    const Instruction& instruction = at(i);
    Clock wanted = before_all();  // with the last of a lane those before it are complete
    const auto want = [&](std::int64_t wait) {
      if (wait < 0) return;
      wait = seen_from(i, wait);
      std::int64_t& last = wanted[static_cast<std::size_t>(at(wait).lane)];
      last = std::max(last, wait);
    };
    const auto after = [&](const std::vector<Value>& values, bool writes) {
      for (const Value value : values) {
        for (const StorageId other : overlaps_[value.storage]) {
          const History& history = history_[other];
          want(history.writer);
          if (!writes) continue;
          for (const std::int64_t reader : history.readers) want(reader);
        }
      }
    };
    after(instruction.reads, false);
    after(instruction.writes, true);
    after(instruction.accumulates, true);

    const auto lane = static_cast<std::size_t>(instruction.lane);
    Clock clock = before_all();
    if (last_[lane] >= 0) clock = clocks_[static_cast<std::size_t>(last_[lane])];
    std::vector<std::int64_t> waits;
    std::sort(wanted.begin(), wanted.end(), std::greater<>());
    for (const std::int64_t wait : wanted) {
      if (wait < 0) break;
      if (clock[static_cast<std::size_t>(at(wait).lane)] >= wait) continue;  // known already
      const Clock& other = clocks_[static_cast<std::size_t>(wait)];
      for (std::size_t l = 0; l < lane_count; ++l) clock[l] = std::max(clock[l], other[l]);
      waits.push_back(wait);
    }
    clock[lane] = i;
    clocks_[static_cast<std::size_t>(i)] = clock;
    last_[lane] = i;
    clock_ = clock;
    if (ends_loop(i)) close_loop(i);

    for (const Value value : instruction.reads) history_[value.storage].readers[lane] = i;
    for (const auto* list : {&instruction.writes, &instruction.accumulates}) {
      for (const Value value : *list) {
        history_[value.storage].writer = i;
        history_[value.storage].readers.fill(-1);
      }
    }
    return waits;
  }

  /// What is complete when the instruction of the last step is, itself included.
  [[nodiscard]] const Clock& clock() const { return clock_; }

private:
  struct History {
    std::int64_t writer = -1;
    Clock readers = before_all();  // the last of each lane; the others came before it
  };

  [[nodiscard]] const Instruction& at(std::int64_t i) const {
    return program_.round[static_cast<std::size_t>(i) % program_.round.size()];
  }

  [[nodiscard]] std::int64_t round_of(std::int64_t i) const {
    return i / static_cast<std::int64_t>(program_.round.size());
  }
  [[nodiscard]] std::uint32_t loop_of(std::int64_t i) const {
    return loops_[static_cast<std::size_t>(i) % loops_.size()];
  }
  [[nodiscard]] bool ends_loop(std::int64_t i) const {
    return loop_of(i) != no_loop &&
           static_cast<std::size_t>(i) % loops_.size() + 1 == program_.repeats[loop_of(i)].end;
  }

  /// What an instruction at `i` waits for when it waits for `wait`: from outside, for the whole loop.
  [[nodiscard]] std::int64_t seen_from(std::int64_t i, std::int64_t wait) const {
    const std::uint32_t loop = loop_of(wait);
    if (loop == no_loop || (loop == loop_of(i) && round_of(i) == round_of(wait))) return wait;
    return round_of(wait) * static_cast<std::int64_t>(loops_.size()) + program_.repeats[loop].end -
           1;
  }

  /// With its last instruction all of a body is complete, and its lanes go on.
  void close_loop(std::int64_t last) {
    const Repeat& repeat = program_.repeats[loop_of(last)];
    Clock& closed = clocks_[static_cast<std::size_t>(last)];
    for (std::int64_t i = last + 1 - (repeat.end - repeat.begin); i < last; ++i) {
      const Clock& other = clocks_[static_cast<std::size_t>(i)];
      for (std::size_t l = 0; l < lane_count; ++l) closed[l] = std::max(closed[l], other[l]);
      last_[static_cast<std::size_t>(at(i).lane)] = last;
    }
  }

  const Program& program_;
  const Overlaps& overlaps_;
  std::vector<std::uint32_t> loops_;
  std::vector<History> history_;
  std::vector<Clock> clocks_;  // what whoever waits for it knows
  Clock clock_ = before_all();
  Clock last_ = before_all();
};

}  // namespace reef::inline v0::schedule::detail
