#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/schedule/detail/deriver.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

REEF_INLINE Deriver::Deriver(const Program& program, const std::vector<Bytes>& addresses,
                             std::int64_t rounds, bool free)
    : program_(program),
      free_(free),
      loops_(loop_by_instruction(program)),
      clocks_(static_cast<std::size_t>(rounds) * program.round.size()) {
  for (const Instruction& instruction : program.round) {
    if (instruction.is_posted()) apart_[static_cast<std::size_t>(instruction.lane)] = true;
  }
  // What has no bytes is ordered too, but by itself alone: behind all others.
  Bytes behind = 0;
  for (std::size_t id = 0; id < addresses.size(); ++id) {
    behind = (std::max)(behind, addresses[id] + program.storages[id].bytes);
  }
  ranges_.resize(addresses.size());
  std::vector<std::pair<Bytes, Bound*>> bounds;  // and who has it
  bounds.reserve(2 * addresses.size());
  for (std::size_t id = 0; id < addresses.size(); ++id) {
    const bool empty = program.storages[id].bytes == 0;
    const Bytes begin = empty ? behind++ : addresses[id];
    bounds.emplace_back(begin, &ranges_[id].begin);
    bounds.emplace_back(begin + (empty ? 1 : program.storages[id].bytes), &ranges_[id].end);
  }
  std::sort(bounds.begin(), bounds.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t count = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (i > 0 && bounds[i].first != bounds[i - 1].first) ++count;
    *bounds[i].second = count;
  }
  histories_.resize(count + 1);
  parts_.resize(histories_.size() / word + 1);
  parts_[0] = 1;  // a history begins with the first byte
}

REEF_INLINE const std::vector<std::int64_t>& Deriver::step(std::int64_t i) {
  const Instruction& instruction = at(i);
  const auto lane = static_cast<std::size_t>(instruction.lane);
  Clock clock = before_all();
  const bool follows = last_[lane] >= 0 && !(free_ && instruction.is_posted());
  if (follows) clock = clocks_[static_cast<std::size_t>(last_[lane])];
  want(instruction);
  waits_.clear();
  for (const std::int64_t wait : wanted_.apart) {
    const Instruction& other = at(wait);
    if (follows && other.lane == instruction.lane && !other.is_posted()) continue;  // by its order
    learn(clock, wait);
    waits_.push_back(wait);
  }
  Clock& wanted = wanted_.clock;
  for (;;) {  // the latest first, since it may know of others
    const auto latest = std::max_element(wanted.begin(), wanted.end());
    const std::int64_t wait = std::exchange(*latest, -1);
    if (wait < 0) break;
    if (clock[static_cast<std::size_t>(latest - wanted.begin())] >= wait) continue;
    learn(clock, wait);
    waits_.push_back(wait);
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
  return waits_;
}

REEF_INLINE bool Deriver::ends_loop(std::int64_t i) const {
  return loop_of(i) != no_loop &&
         static_cast<std::size_t>(i) % loops_.size() + 1 == program_.repeats[loop_of(i)].end;
}

REEF_INLINE void Deriver::learn(Clock& clock, std::int64_t wait) const {
  const Clock& other = clocks_[static_cast<std::size_t>(wait)];
  for (std::size_t l = 0; l < lane_count; ++l) clock[l] = (std::max)(clock[l], other[l]);
}

REEF_INLINE void Deriver::want(const Instruction& instruction) {
  Wanted& wanted = wanted_;
  wanted.clock = before_all();
  wanted.apart.clear();
  const auto behind = [&](const std::vector<Value>& values, bool writes) {
    for (const Value value : values) {
      const auto [begin, end] = ranges_[value.storage];
      for (Bound at = part_of(begin); at < end; at = next_part(at)) {
        const History& history = histories_[at];
        if (!apart_[history.writer_lane]) {
          std::int64_t& last = wanted.clock[history.writer_lane];
          last = (std::max)(last, history.writer);
        } else if (history.writer >= 0) {
          wanted.apart.push_back(history.writer);
        }
        if (!writes) continue;
        for (std::size_t l = 0; l < lane_count; ++l) {
          wanted.clock[l] = (std::max)(wanted.clock[l], history.readers[l]);
        }
        wanted.apart.insert(wanted.apart.end(), history.apart.begin(), history.apart.end());
      }
    }
  };
  behind(instruction.after, false);
  behind(instruction.reads, false);
  behind(instruction.writes, true);
  behind(instruction.accumulates, true);
  std::sort(wanted.apart.begin(), wanted.apart.end(), std::greater<>());
  wanted.apart.erase(std::unique(wanted.apart.begin(), wanted.apart.end()), wanted.apart.end());
}

REEF_INLINE Deriver::Bound Deriver::part_of(Bound bound) const {
  std::size_t w = bound / word;
  std::uint64_t before = parts_[w] << (word - 1 - bound % word);  // that bound's bit is the highest
  if (before != 0) return bound - static_cast<std::size_t>(std::countl_zero(before));
  do before = parts_[--w];  // one begins at 0
  while (before == 0);
  return w * word + word - 1 - static_cast<std::size_t>(std::countl_zero(before));
}

REEF_INLINE Deriver::Bound Deriver::next_part(Bound bound) const {
  std::size_t w = ++bound / word;
  std::uint64_t behind = parts_[w] >> (bound % word);
  if (behind != 0) return bound + static_cast<std::size_t>(std::countr_zero(behind));
  while (++w < parts_.size()) {
    behind = parts_[w];
    if (behind != 0) return w * word + static_cast<std::size_t>(std::countr_zero(behind));
  }
  return histories_.size();
}

REEF_INLINE void Deriver::part_at(Bound bound) {
  const Bound part = part_of(bound);
  if (part == bound) return;
  histories_[bound] = histories_[part];
  parts_[bound / word] |= std::uint64_t{1} << (bound % word);
}

REEF_INLINE void Deriver::read(Range range, std::size_t lane, std::int64_t reader) {
  part_at(range.end);
  part_at(range.begin);
  for (Bound part = range.begin; part < range.end; part = next_part(part)) {
    if (apart_[lane]) {
      histories_[part].apart.push_back(reader);
    } else {
      histories_[part].readers[lane] = reader;
    }
  }
}

REEF_INLINE void Deriver::write(Range range, const History& by) {
  part_at(range.end);
  part_at(range.begin);
  histories_[range.begin] = by;
  for (Bound part = next_part(range.begin); part < range.end; part = next_part(part)) {
    parts_[part / word] &= ~(std::uint64_t{1} << (part % word));
  }
}

REEF_INLINE void Deriver::close_loop(std::int64_t last) {
  const Repeat& repeat = program_.repeats[loop_of(last)];
  const std::int64_t begin = last + 1 - (repeat.end - repeat.begin);
  const auto lane = static_cast<std::size_t>(at(last).lane);
  Clock& closed = clocks_[static_cast<std::size_t>(last)];
  for (std::int64_t i = begin; i <= last; ++i) {
    const Clock& other = clocks_[static_cast<std::size_t>(i)];
    for (std::size_t l = 0; l < lane_count; ++l) closed[l] = (std::max)(closed[l], other[l]);
    last_[static_cast<std::size_t>(at(i).lane)] = last;
  }
  for (Bound part = 0; part < histories_.size(); part = next_part(part)) {
    History& history = histories_[part];
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

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
