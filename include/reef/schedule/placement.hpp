#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule {

/// Where every region lies in the arena of its place, fixed before the first step: nothing is
/// allocated while a round runs, so the peak is exact.
struct Placement {
  static constexpr Bytes alignment = 64;

  std::vector<Bytes> offset{};  ///< by storage; of a region in its arena, 0 for a part
  Bytes device_bytes = 0;       ///< the device arena
  Bytes host_bytes = 0;         ///< the arena of pinned host memory

  [[nodiscard]] Bytes arena_bytes(Place place) const {
    return place == Place::device ? device_bytes : host_bytes;
  }

  /// Where a storage, region or part, begins in the arena of its place.
  [[nodiscard]] Bytes address(const Program& program, StorageId id) const {
    const auto [region, inside] = program.region_of(id);
    return offset[region] + inside;
  }
};

namespace detail {

/// The instructions between which a region must keep what it holds.
struct Lifetime {
  StorageId region = no_storage;
  std::size_t first = 0;
  std::size_t last = 0;
  bool used = false;
};

inline std::vector<Lifetime> lifetimes_of(const Program& program) {
  std::vector<Lifetime> lifetimes(program.storages.size());
  for (std::size_t id = 0; id < lifetimes.size(); ++id) {
    Lifetime& life = lifetimes[id];
    life.region = static_cast<StorageId>(id);
    if (program.storages[id].life != Life::round && program.storages[id].parent == no_storage) {
      life.last = program.round.size();
      life.used = true;
    }
  }
  for (std::size_t i = 0; i < program.round.size(); ++i) {
    const Instruction& instruction = program.round[i];
    for (const auto* list : {&instruction.reads, &instruction.writes, &instruction.accumulates}) {
      for (const Value value : *list) {
        Lifetime& life = lifetimes[program.region_of(value.storage).first];
        if (!life.used) {
          life.first = i;
          life.last = i;
          life.used = true;
        }
        life.last = std::max(life.last, i);
      }
    }
  }
  return lifetimes;
}

}  // namespace detail

/// Gives every region an offset, and regions whose lifetimes do not meet the same bytes.
///
/// What is reserved or persistent comes first, in the order of the program's storages, so that
/// programs which begin with the same storages agree on where those lie. The other regions are
/// taken largest first and put at the lowest offset that no region of an overlapping lifetime holds. Lifetimes are those of the program's order; the lanes keep them, because
/// `derive` makes an instruction wait for the last use of the bytes that it takes over.
///
/// | cost   | O(regions^2)                                              |
/// | order  | deterministic: equal programs get equal placements        |
inline Placement place(const Program& program) {
  std::vector<detail::Lifetime> lives;
  for (const detail::Lifetime& life : detail::lifetimes_of(program)) {
    if (life.used && program.storages[life.region].parent == no_storage) lives.push_back(life);
  }
  std::stable_sort(lives.begin(), lives.end(), [&](const auto& a, const auto& b) {
    const Storage& first = program.storages[a.region];
    const Storage& second = program.storages[b.region];
    if ((first.life == Life::round) != (second.life == Life::round)) return second.life == Life::round;
    return first.life == Life::round && first.bytes > second.bytes;
  });

  Placement result;
  result.offset.assign(program.storages.size(), 0);
  std::vector<detail::Lifetime> placed;
  for (const detail::Lifetime& life : lives) {
    const Storage& storage = program.storages[life.region];
    struct Range {
      Bytes begin, end;
    };
    std::vector<Range> taken;
    for (const detail::Lifetime& other : placed) {
      const Storage& held = program.storages[other.region];
      if (held.place != storage.place || other.last < life.first || life.last < other.first) continue;
      taken.push_back({result.offset[other.region], result.offset[other.region] + held.bytes});
    }
    std::sort(taken.begin(), taken.end(), [](Range a, Range b) { return a.begin < b.begin; });
    Bytes offset = 0;
    for (const Range range : taken) {
      if (offset + storage.bytes <= range.begin) break;
      offset = std::max(offset, round_up(range.end, Placement::alignment));
    }
    result.offset[life.region] = offset;
    Bytes& arena = storage.place == Place::device ? result.device_bytes : result.host_bytes;
    arena = std::max(arena, round_up(offset + storage.bytes, Placement::alignment));
    placed.push_back(life);
  }
  return result;
}

/// The two storages share at least one byte.
inline bool overlap(const Program& program, const Placement& placement, StorageId a, StorageId b) {
  const Storage& first = program.storages[a];
  const Storage& second = program.storages[b];
  if (a == b) return true;
  if (first.place != second.place || first.bytes == 0 || second.bytes == 0) return false;
  const Bytes begin_a = placement.address(program, a);
  const Bytes begin_b = placement.address(program, b);
  return begin_a < begin_b + second.bytes && begin_b < begin_a + first.bytes;
}

/// For every storage, the storages that share bytes with it, itself included.
inline std::vector<std::vector<StorageId>> overlaps_of(const Program& program,
                                                       const Placement& placement) {
  struct Interval {
    Bytes begin, end;
    StorageId id;
  };
  const std::size_t count = program.storages.size();
  std::vector<std::vector<StorageId>> result(count);
  std::vector<bool> used(count, false);
  for (const Instruction& instruction : program.round) {
    for (const auto* list : {&instruction.reads, &instruction.writes, &instruction.accumulates}) {
      for (const Value value : *list) used[value.storage] = true;
    }
  }
  for (const Place place : {Place::device, Place::host}) {
    std::vector<Interval> intervals;
    for (StorageId id = 0; id < count; ++id) {
      if (!used[id] || program.storages[id].place != place) continue;
      const Bytes begin = placement.address(program, id);
      intervals.push_back({begin, begin + program.storages[id].bytes, id});
    }
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      result[intervals[i].id].push_back(intervals[i].id);
      for (std::size_t j = i + 1; j < intervals.size() && intervals[j].begin < intervals[i].end; ++j) {
        if (intervals[j].begin == intervals[j].end) continue;
        result[intervals[i].id].push_back(intervals[j].id);
        result[intervals[j].id].push_back(intervals[i].id);
      }
    }
  }
  return result;
}

}  // namespace reef::inline v0::schedule
