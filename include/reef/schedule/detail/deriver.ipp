#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/schedule/detail/deriver.hpp>

namespace reef::inline v0::schedule::detail {

REEF_INLINE Deriver::Deriver(const Program& program, const std::vector<Bytes>& addresses,
                             std::int64_t rounds, bool free)
    : program_(program),
      free_(free),
      loops_(loop_by_instruction(program)),
      clocks_(static_cast<std::size_t>(rounds) * program.round.size()) {
  for (const Instruction& instruction : program.round) {
    if (instruction.is_posted()) apart_[static_cast<std::size_t>(instruction.lane)] = true;
  }
  Bytes behind = 0;
  for (std::size_t id = 0; id < addresses.size(); ++id) {
    ranges_.push_back({addresses[id], addresses[id] + program.storages[id].bytes});
    behind = std::max(behind, ranges_.back().end);
  }
  for (ByteRange& range : ranges_) {  // what has no bytes is ordered too, but by itself alone
    if (range.begin != range.end) continue;
    range = {behind, behind + 1};
    ++behind;
  }
}

REEF_INLINE std::vector<std::int64_t> Deriver::step(std::int64_t i) {
  const Instruction& instruction = at(i);
  const auto lane = static_cast<std::size_t>(instruction.lane);
  Clock clock = before_all();
  const bool follows = last_[lane] >= 0 && !(free_ && instruction.is_posted());
  if (follows) clock = clocks_[static_cast<std::size_t>(last_[lane])];
  auto [wanted, apart] = wanted_by(instruction);
  std::vector<std::int64_t> waits;
  for (const std::int64_t wait : apart) {
    const Instruction& other = at(wait);
    if (follows && other.lane == instruction.lane && !other.is_posted()) continue;  // by its order
    learn(clock, wait);
    waits.push_back(wait);
  }
  for (;;) {  // the latest first, since it may know of others
    const auto latest = std::max_element(wanted.begin(), wanted.end());
    const std::int64_t wait = std::exchange(*latest, -1);
    if (wait < 0) break;
    if (clock[static_cast<std::size_t>(latest - wanted.begin())] >= wait) continue;
    learn(clock, wait);
    waits.push_back(wait);
  }
  if (!apart_[lane]) clock[lane] = i;
  clocks_[static_cast<std::size_t>(i)] = clock;
  last_[lane] = i;
  clock_ = clock;

  for (const Value value : instruction.reads) read(ranges_[value.storage], lane, i);
  for (const auto* list : {&instruction.writes, &instruction.accumulates}) {
    for (const Value value : *list) {
      write(ranges_[value.storage], {.writer = i, .writer_lane = lane});
    }
  }
  if (ends_loop(i)) close_loop(i);
  return waits;
}

REEF_INLINE bool Deriver::ends_loop(std::int64_t i) const {
  return loop_of(i) != no_loop &&
         static_cast<std::size_t>(i) % loops_.size() + 1 == program_.repeats[loop_of(i)].end;
}

REEF_INLINE void Deriver::learn(Clock& clock, std::int64_t wait) const {
  const Clock& other = clocks_[static_cast<std::size_t>(wait)];
  for (std::size_t l = 0; l < lane_count; ++l) clock[l] = std::max(clock[l], other[l]);
}

REEF_INLINE Deriver::Wanted Deriver::wanted_by(const Instruction& instruction) const {
  Wanted wanted;
  const auto after = [&](const std::vector<Value>& values, bool writes) {
    for (const Value value : values) {
      const auto [begin, end] = ranges_[value.storage];
      for (auto at = std::prev(histories_.upper_bound(begin));
           at != histories_.end() && at->first < end; ++at) {
        const History& history = at->second;
        if (!apart_[history.writer_lane]) {
          std::int64_t& last = wanted.clock[history.writer_lane];
          last = std::max(last, history.writer);
        } else if (history.writer >= 0) {
          wanted.apart.push_back(history.writer);
        }
        if (!writes) continue;
        for (std::size_t l = 0; l < lane_count; ++l) {
          wanted.clock[l] = std::max(wanted.clock[l], history.readers[l]);
        }
        wanted.apart.insert(wanted.apart.end(), history.apart.begin(), history.apart.end());
      }
    }
  };
  after(instruction.reads, false);
  after(instruction.writes, true);
  after(instruction.accumulates, true);
  std::sort(wanted.apart.rbegin(), wanted.apart.rend());
  wanted.apart.erase(std::unique(wanted.apart.begin(), wanted.apart.end()), wanted.apart.end());
  return wanted;
}

REEF_INLINE Deriver::Histories::iterator Deriver::part_at(Bytes byte) {
  const auto next = histories_.upper_bound(byte);
  const auto part = std::prev(next);
  return part->first == byte ? part : histories_.emplace_hint(next, byte, part->second);
}

REEF_INLINE void Deriver::read(ByteRange range, std::size_t lane, std::int64_t reader) {
  const auto end = part_at(range.end);
  for (auto part = part_at(range.begin); part != end; ++part) {
    if (apart_[lane]) {
      part->second.apart.push_back(reader);
    } else {
      part->second.readers[lane] = reader;
    }
  }
}

REEF_INLINE void Deriver::write(ByteRange range, const History& by) {
  const auto end = part_at(range.end);
  const auto part = part_at(range.begin);
  part->second = by;
  histories_.erase(std::next(part), end);
}

REEF_INLINE void Deriver::close_loop(std::int64_t last) {
  const Repeat& repeat = program_.repeats[loop_of(last)];
  const std::int64_t begin = last + 1 - (repeat.end - repeat.begin);
  const auto lane = static_cast<std::size_t>(at(last).lane);
  Clock& closed = clocks_[static_cast<std::size_t>(last)];
  for (std::int64_t i = begin; i <= last; ++i) {
    const Clock& other = clocks_[static_cast<std::size_t>(i)];
    for (std::size_t l = 0; l < lane_count; ++l) closed[l] = std::max(closed[l], other[l]);
    last_[static_cast<std::size_t>(at(i).lane)] = last;
  }
  for (auto& [byte, history] : histories_) {
    if (history.writer >= begin) history = {.writer = last, .writer_lane = lane};
    for (std::int64_t& reader : history.readers) {
      if (reader < begin) continue;
      reader = -1;
      history.readers[lane] = last;
    }
    const auto inside = std::lower_bound(history.apart.begin(), history.apart.end(), begin);
    if (inside != history.apart.end()) history.readers[lane] = last;
    history.apart.erase(inside, history.apart.end());
  }
}

}  // namespace reef::inline v0::schedule::detail
