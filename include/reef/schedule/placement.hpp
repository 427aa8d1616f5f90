#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/schedule/detail/deriver.hpp>
#include <reef/schedule/detail/occupancy.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule {

/// Where every region lies in the arena of its place, fixed before the first step: nothing is
/// allocated while a round runs, so the peak is exact.
struct Placement {
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

  /// Where each storage begins, in one space: the host's arena behind the device's.
  [[nodiscard]] std::vector<Bytes> addresses(const Program& program) const {
    std::vector<Bytes> result(program.storages.size());
    for (StorageId id = 0; id < result.size(); ++id) {
      const bool on_host = program.storages[id].place == Place::host;
      result[id] = address(program, id) + (on_host ? device_bytes : 0);
    }
    return result;
  }
};

namespace detail {

/// Where each storage would begin were all regions to lie one behind the other.
inline std::vector<Bytes> addresses_by_region(const Program& program) {
  std::vector<Bytes> result(program.storages.size());
  Bytes next = 0;
  for (StorageId id = 0; id < result.size(); ++id) {
    if (program.storages[id].parent == no_storage) {
      result[id] = std::exchange(next, next + program.storages[id].bytes);
    }
  }
  for (StorageId id = 0; id < result.size(); ++id) {
    const auto [region, inside] = program.region_of(id);
    if (region != id) result[id] = result[region] + inside;
  }
  return result;
}

/// Which regions are alive, and which of two is certainly done with its bytes before the other
/// begins, whatever the speed of the lanes.
class Lifetimes {
public:
  explicit Lifetimes(const Program& program)
      : program_(program), regions_(program.storages.size()) {
    for (std::size_t id = 0; id < regions_.size(); ++id) {
      const Storage& storage = program.storages[id];
      regions_[id].place = storage.place;
      regions_[id].of_round = storage.life == Life::round;
    }
    Deriver deriver(program, addresses_by_region(program), 1);
    for (std::size_t i = 0; i < program.round.size(); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      deriver.step(position);
      const Instruction& instruction = program.round[i];
      const auto lane = static_cast<std::size_t>(instruction.lane);
      Clock known = deriver.clock();
      known[lane] = position - 1;  // an access of the instruction itself is not before it
      for (const auto* list : {&instruction.reads, &instruction.writes, &instruction.accumulates}) {
        for (const Value value : *list) {
          Region& region = regions_[program.region_of(value.storage).first];
          Lifetime& life = region.life;
          for (std::size_t l = 0; l < lane_count; ++l) {
            life.known[l] = region.used ? std::min(life.known[l], known[l]) : known[l];
          }
          if (!region.used) life.first = position;
          life.last[lane] = position;
          region.used = true;
        }
      }
    }
    for (const Repeat& repeat : program.repeats) keep_through(repeat);
  }

  /// Something uses the region, or it is kept whether or not something does.
  [[nodiscard]] bool alive(StorageId region) const {
    return !regions_[region].of_round || regions_[region].used;
  }

  /// Their bytes must differ.
  [[nodiscard]] bool meet(StorageId a, StorageId b) const {
    const Region& first = regions_[a];
    const Region& second = regions_[b];
    if (first.place != second.place) return false;
    if (!first.of_round || !second.of_round) return true;
    return !first.life.before(second.life) && !second.life.before(first.life);
  }

  /// Of a region that is alive.
  [[nodiscard]] Lifetime of(StorageId region) const {
    return regions_[region].of_round ? regions_[region].life : Lifetime::always();
  }

private:
  struct Region {
    Place place = Place::device;
    bool of_round = false;  ///< it may share its bytes
    bool used = false;
    Lifetime life{};
  };

  /// What was there before a loop, each of its iterations may read: to its end nothing in it takes
  /// the bytes.
  void keep_through(const Repeat& repeat) {
    Clock end = before_all();
    for (std::uint32_t i = repeat.begin; i < repeat.end; ++i) {
      end[static_cast<std::size_t>(program_.round[i].lane)] = i;
    }
    for (std::uint32_t i = repeat.begin; i < repeat.end; ++i) {
      const Instruction& instruction = program_.round[i];
      for (const auto* list : {&instruction.reads, &instruction.writes, &instruction.accumulates}) {
        for (const Value value : *list) {
          Lifetime& life = regions_[program_.region_of(value.storage).first].life;
          if (life.first >= repeat.begin) continue;
          for (std::size_t l = 0; l < lane_count; ++l) {
            life.last[l] = std::max(life.last[l], end[l]);
          }
        }
      }
    }
  }

  const Program& program_;
  std::vector<Region> regions_;
};

}  // namespace detail

/// Gives every region an offset, and the same bytes to regions of which one is certainly done before
/// the other begins: sharing never makes a lane wait that would not wait anyway.
///
/// What is reserved or persistent comes first, in the order of the program's storages, so that
/// programs which begin with the same storages agree on where those lie. The other regions are
/// taken largest first and put at the lowest offset that no region they meet holds. `looked_at`, if given,
/// becomes how many regions were looked at for that.
///
/// | cost   | O(accesses * log storages), and for each region what Occupancy looks at: log regions where     |
/// |        | the same comes again and again, as micro-batches do                                           |
/// | order  | deterministic: equal programs get equal placements                                            |
inline Placement place(const Program& program, std::uint64_t* looked_at = nullptr) {
  const detail::Lifetimes lifetimes(program);
  std::vector<StorageId> regions;
  for (StorageId id = 0; id < program.storages.size(); ++id) {
    if (program.storages[id].parent == no_storage && lifetimes.alive(id)) regions.push_back(id);
  }
  std::stable_sort(regions.begin(), regions.end(), [&](StorageId a, StorageId b) {
    const Storage& first = program.storages[a];
    const Storage& second = program.storages[b];
    if ((first.life == Life::round) != (second.life == Life::round))
      return second.life == Life::round;
    return first.life == Life::round && first.bytes > second.bytes;
  });

  Placement result;
  result.offset.assign(program.storages.size(), 0);
  std::array<detail::Occupancy, 2> occupied;  // by place
  for (const StorageId id : regions) {
    const Storage& storage = program.storages[id];
    detail::Occupancy& others = occupied[static_cast<std::size_t>(storage.place)];
    const detail::Lifetime life = lifetimes.of(id);
    const Bytes offset = others.lowest_offset(storage.bytes, life);
    result.offset[id] = offset;
    Bytes& arena = storage.place == Place::device ? result.device_bytes : result.host_bytes;
    arena = std::max(arena, round_up(offset + storage.bytes, arena_alignment));
    others.insert({offset, offset + storage.bytes}, life);
  }
  if (looked_at != nullptr) *looked_at = occupied[0].looked_at() + occupied[1].looked_at();
  return result;
}

/// The most bytes of a place that are alive at one instruction, in the order of the program: no arena that
/// placing makes is smaller.
///
/// | cost | O(accesses + storages): much less than placing |
inline Bytes most_live(const Program& program, Place place) {
  struct Span {
    std::size_t first = 0;
    std::size_t last = 0;
    bool used = false;
  };
  std::vector<Span> spans(program.storages.size());
  for (std::size_t i = 0; i < program.round.size(); ++i) {
    const Instruction& instruction = program.round[i];
    for (const auto* list : {&instruction.reads, &instruction.writes, &instruction.accumulates}) {
      for (const Value value : *list) {
        Span& span = spans[program.region_of(value.storage).first];
        if (!std::exchange(span.used, true)) span.first = i;
        span.last = i;
      }
    }
  }
  Bytes always = 0;
  std::vector<Bytes> begins(program.round.size() + 1);
  std::vector<Bytes> ends(program.round.size() + 1);
  for (StorageId id = 0; id < spans.size(); ++id) {
    const Storage& storage = program.storages[id];
    if (storage.place != place || storage.parent != no_storage) continue;
    const Bytes bytes = round_up(storage.bytes, arena_alignment);
    if (storage.life != Life::round) {
      always += bytes;
    } else if (spans[id].used) {
      begins[spans[id].first] += bytes;
      ends[spans[id].last + 1] += bytes;
    }
  }
  Bytes live = always;
  Bytes most = always;
  for (std::size_t i = 0; i < program.round.size(); ++i) {
    live = live + begins[i] - ends[i];
    most = std::max(most, live);
  }
  return most;
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

}  // namespace reef::inline v0::schedule
