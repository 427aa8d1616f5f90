#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule {

/// An instruction of another lane that must be complete before one may start.
struct Dependency {
  std::uint32_t instruction = 0;
  bool previous_round = false;

  friend constexpr bool operator==(const Dependency&, const Dependency&) = default;
};

/// By instruction of the round: what it waits for, beyond its predecessor on its own lane.
using Dependencies = std::vector<std::vector<Dependency>>;

namespace detail {

/// What is known to be complete, per lane: the number of instructions counted from the start.
using Clock = std::array<std::int64_t, lane_count>;

inline void merge(Clock& into, const Clock& other) {
  for (std::size_t lane = 0; lane < lane_count; ++lane) into[lane] = std::max(into[lane], other[lane]);
}

/// Walks two rounds in program order and finds, for each instruction, the least set of waits that
/// orders every two accesses to the same bytes of which one writes.
class Deriver {
public:
  Deriver(const Program& program, const Placement& placement)
      : program_(program),
        overlaps_(overlaps_of(program, placement)),
        history_(program.storages.size()),
        clocks_(2 * program.round.size()) {}

  Dependencies run() {
    const auto count = static_cast<std::int64_t>(program_.round.size());
    Dependencies result(program_.round.size());
    for (std::int64_t i = 0; i < 2 * count; ++i) {
      const std::vector<std::int64_t> waits = step(i, program_.round[static_cast<std::size_t>(i % count)]);
      if (i < count) continue;
      for (const std::int64_t wait : waits) {
        result[static_cast<std::size_t>(i - count)].push_back(
            {static_cast<std::uint32_t>(wait % count), wait < count});
      }
    }
    return result;
  }

private:
  struct History {
    std::int64_t writer = -1;
    std::vector<std::int64_t> readers;
  };

  Lane lane_of(std::int64_t i) const {
    return program_.round[static_cast<std::size_t>(i) % program_.round.size()].lane;
  }

  std::vector<std::int64_t> step(std::int64_t i, const Instruction& instruction) {
    std::vector<std::int64_t> wanted;
    const auto after = [&](StorageId storage, bool writes) {
      for (const StorageId other : overlaps_[storage]) {
        const History& history = history_[other];
        if (history.writer >= 0) wanted.push_back(history.writer);
        if (writes) wanted.insert(wanted.end(), history.readers.begin(), history.readers.end());
      }
    };
    for (const Value value : instruction.reads) after(value.storage, false);
    for (const Value value : instruction.writes) after(value.storage, true);
    for (const Value value : instruction.accumulates) after(value.storage, true);

    const auto lane = static_cast<std::size_t>(instruction.lane);
    Clock clock{};
    clock.fill(-1);
    if (last_[lane] >= 0) clock = clocks_[static_cast<std::size_t>(last_[lane])];
    std::vector<std::int64_t> waits;
    std::sort(wanted.begin(), wanted.end(), std::greater<>());
    for (const std::int64_t wait : wanted) {
      if (clock[static_cast<std::size_t>(lane_of(wait))] >= wait) continue;  // known already
      merge(clock, clocks_[static_cast<std::size_t>(wait)]);
      waits.push_back(wait);
    }
    clock[lane] = i;
    clocks_[static_cast<std::size_t>(i)] = clock;
    last_[lane] = i;

    for (const Value value : instruction.reads) history_[value.storage].readers.push_back(i);
    for (const auto* list : {&instruction.writes, &instruction.accumulates}) {
      for (const Value value : *list) {
        history_[value.storage].writer = i;
        history_[value.storage].readers.clear();
      }
    }
    return waits;
  }

  const Program& program_;
  std::vector<std::vector<StorageId>> overlaps_;
  std::vector<History> history_;
  std::vector<Clock> clocks_;
  std::array<std::int64_t, lane_count> last_{-1, -1, -1, -1, -1, -1};
};

}  // namespace detail

/// Derives who waits for whom from what the instructions read and write.
///
/// Two instructions that touch the same bytes, one of them writing, run in the order of the
/// program: read after write, write after read, write after write, and accumulations one after the
/// other. Waits that follow from others, or from the order of a lane, are left out.
///
/// | cost | O(n * accesses * overlapping storages), once per program |
inline Dependencies derive(const Program& program, const Placement& placement) {
  return detail::Deriver(program, placement).run();
}

}  // namespace reef::inline v0::schedule
