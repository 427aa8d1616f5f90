#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include <reef/core/first_fit.hpp>
#include <reef/core/inline.hpp>
#include <reef/schedule/detail/deriver.hpp>
#include <reef/schedule/placement.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

REEF_INLINE Bytes Placement::address(const Program& program, StorageId id) const {
  const auto [region, inside] = program.region_of(id);
  return offset[region] + inside;
}

REEF_INLINE std::vector<Bytes> Placement::addresses(const Program& program) const {
  std::vector<Bytes> result(program.storages.size());
  for (StorageId id = 0; id < result.size(); ++id) {
    const bool on_host = program.storages[id].place == Place::host;
    result[id] = address(program, id) + (on_host ? device_bytes : 0);
  }
  return result;
}

namespace detail {

REEF_INLINE std::vector<Bytes> addresses_by_region(const Program& program) {
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

REEF_INLINE Lifetimes::Lifetimes(const Program& program)
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
    // An access of the instruction itself is not before it.
    if (!deriver.is_apart(lane)) known[lane] = position - 1;
    for_each_value(instruction, [&](const Value value) {
      Region& region = regions_[program.region_of(value.storage).first];
      Lifetime& life = region.life;
      for (std::size_t l = 0; l < lane_count; ++l) {
        life.known[l] = region.used ? (std::min)(life.known[l], known[l]) : known[l];
      }
      if (!region.used) life.first = position;
      life.last[lane] = position;
      region.used = true;
    });
  }
  for (const Repeat& repeat : program.repeats) keep_through(repeat);
  for (Region& region : regions_) {
    // Nobody knows of those lanes, so it is before nothing: said alike of all such regions, they are passed over as
    // one.
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (deriver.is_apart(l) && region.life.last[l] >= 0) region.life.last.fill(INT64_MAX);
    }
    if (!region.of_round) region.life = Lifetime::always();
  }
}

REEF_INLINE bool Lifetimes::meet(StorageId a, StorageId b) const {
  const Region& first = regions_[a];
  const Region& second = regions_[b];
  if (first.place != second.place) return false;
  if (!first.of_round || !second.of_round) return true;
  return !first.life.before(second.life) && !second.life.before(first.life);
}

REEF_INLINE void Lifetimes::keep_through(const Repeat& repeat) {
  Clock end = before_all();
  for (std::uint32_t i = repeat.begin; i < repeat.end; ++i) {
    end[static_cast<std::size_t>(program_.round[i].lane)] = i;
  }
  for (std::uint32_t i = repeat.begin; i < repeat.end; ++i) {
    for_each_value(program_.round[i], [&](const Value value) {
      Lifetime& life = regions_[program_.region_of(value.storage).first].life;
      if (life.first >= repeat.begin) return;
      for (std::size_t l = 0; l < lane_count; ++l) {
        life.last[l] = (std::max)(life.last[l], end[l]);
      }
    });
  }
}

}  // namespace detail

REEF_INLINE Placement place(const Program& program, std::uint64_t* looked_at) {
  const detail::Lifetimes lifetimes(program);
  std::vector<StorageId> regions;
  for (StorageId id = 0; id < program.storages.size(); ++id) {
    if (program.storages[id].parent == no_storage && lifetimes.alive(id)) regions.push_back(id);
  }
  // With ids as the last key: a stable sort takes several times longer to compile.
  std::sort(regions.begin(), regions.end(), [&](StorageId a, StorageId b) {
    const Storage& first = program.storages[a];
    const Storage& second = program.storages[b];
    if ((first.life == Life::round) != (second.life == Life::round))
      return second.life == Life::round;
    if (first.life != Life::round) return a < b;
    if (first.bytes != second.bytes) return first.bytes > second.bytes;
    const auto& begin_of_a = lifetimes.of(a).first;
    const auto& begin_of_b = lifetimes.of(b).first;
    return begin_of_a != begin_of_b ? begin_of_a < begin_of_b : a < b;
  });

  Placement result;
  result.offset.assign(program.storages.size(), 0);
  std::array<detail::Occupancy, 2> occupied;  // by place
  occupied[static_cast<std::size_t>(Place::device)].reserve(regions.size());
  for (const StorageId id : regions) {
    const Storage& storage = program.storages[id];
    detail::Occupancy& others = occupied[static_cast<std::size_t>(storage.place)];
    const detail::Lifetime& life = lifetimes.of(id);
    const bool of_round = storage.life == Life::round;
    const Bytes offset =
        of_round ? others.lowest_offset(storage.bytes, life) : others.take_for_good(storage.bytes);
    result.offset[id] = offset;
    Bytes& arena = storage.place == Place::device ? result.device_bytes : result.host_bytes;
    arena = (std::max)(arena, round_up(offset + storage.bytes, arena_alignment));
    if (of_round && storage.bytes > 0) others.insert({offset, offset + storage.bytes}, life);
  }
  if (looked_at != nullptr) *looked_at = occupied[0].looked_at() + occupied[1].looked_at();
  return result;
}

REEF_INLINE bool placed_alike(const Program& a, const Program& b) {
  const auto alike = [](const auto& first, const auto& second, const auto& parts) {
    return std::equal(first.begin(), first.end(), second.begin(), second.end(),
                      [&](const auto& x, const auto& y) { return parts(x) == parts(y); });
  };
  return alike(a.storages, b.storages,
               [](const Storage& s) { return std::tie(s.bytes, s.place, s.life, s.parent, s.offset); }) &&
         alike(a.repeats, b.repeats, [](const Repeat& loop) { return std::tie(loop.begin, loop.end); }) &&
         alike(a.round, b.round, [](const Instruction& i) {
           return std::tie(i.lane, i.completion, i.reads, i.writes, i.accumulates, i.after);
         });
}

REEF_INLINE Bytes max_live(const Program& program, Place place) {
  struct Span {
    std::size_t first = 0;
    std::size_t last = 0;
    bool used = false;
  };
  std::vector<Span> spans(program.storages.size());
  for (std::size_t i = 0; i < program.round.size(); ++i) {
    for_each_value(program.round[i], [&](const Value value) {
      Span& span = spans[program.region_of(value.storage).first];
      if (!std::exchange(span.used, true)) span.first = i;
      span.last = i;
    });
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
    most = (std::max)(most, live);
  }
  return most;
}

REEF_INLINE bool overlap(const Program& program, const Placement& placement, StorageId a,
                         StorageId b) {
  const Storage& first = program.storages[a];
  const Storage& second = program.storages[b];
  if (a == b) return true;
  if (first.place != second.place || first.bytes == 0 || second.bytes == 0) return false;
  const Bytes begin_a = placement.address(program, a);
  const Bytes begin_b = placement.address(program, b);
  return begin_a < begin_b + second.bytes && begin_b < begin_a + first.bytes;
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
