#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/core/units.hpp>
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

/// Walks rounds in program order and finds, for each instruction, the least set of waits that orders
/// every two accesses to the same bytes of which one writes.
///
/// A loop counts as one: from outside, its last instruction stands for its body.
class Deriver {
public:
  /// `addresses`: by storage, where its bytes begin, in one space.
  Deriver(const Program& program, const std::vector<Bytes>& addresses, std::int64_t rounds)
      : program_(program),
        loops_(loop_by_instruction(program)),
        clocks_(static_cast<std::size_t>(rounds) * program.round.size()) {
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

  /// The positions that the instruction at position `i`, counted over rounds, waits for. Called once
  /// for each position, ascending.
  std::vector<std::int64_t> step(std::int64_t i) {
    const Instruction& instruction = at(i);
    const auto lane = static_cast<std::size_t>(instruction.lane);
    Clock clock = before_all();
    if (last_[lane] >= 0) clock = clocks_[static_cast<std::size_t>(last_[lane])];
    Clock wanted = wanted_by(instruction);
    std::vector<std::int64_t> waits;
    for (;;) {  // the latest first, since it may know of others
      const auto latest = std::max_element(wanted.begin(), wanted.end());
      const std::int64_t wait = std::exchange(*latest, -1);
      if (wait < 0) break;
      if (clock[static_cast<std::size_t>(latest - wanted.begin())] >= wait) continue;
      const Clock& other = clocks_[static_cast<std::size_t>(wait)];
      for (std::size_t l = 0; l < lane_count; ++l) clock[l] = std::max(clock[l], other[l]);
      waits.push_back(wait);
    }
    clock[lane] = i;
    clocks_[static_cast<std::size_t>(i)] = clock;
    last_[lane] = i;
    clock_ = clock;

    for (const Value value : instruction.reads) read(ranges_[value.storage], lane, i);
    for (const auto* list : {&instruction.writes, &instruction.accumulates}) {
      for (const Value value : *list) write(ranges_[value.storage], {i, lane});
    }
    if (ends_loop(i)) close_loop(i);
    return waits;
  }

  /// What is complete when the instruction of the last step is, itself included.
  [[nodiscard]] const Clock& clock() const { return clock_; }

private:
  /// The last accesses to some bytes.
  struct History {
    std::int64_t writer = -1;
    std::size_t writer_lane = 0;
    Clock readers = before_all();  // after the writer, by lane; the others came before it
  };
  /// By the first byte: each goes on to the next.
  using Histories = std::map<Bytes, History>;

  [[nodiscard]] const Instruction& at(std::int64_t i) const {
    return program_.round[static_cast<std::size_t>(i) % program_.round.size()];
  }

  [[nodiscard]] std::uint32_t loop_of(std::int64_t i) const {
    return loops_[static_cast<std::size_t>(i) % loops_.size()];
  }
  [[nodiscard]] bool ends_loop(std::int64_t i) const {
    return loop_of(i) != no_loop &&
           static_cast<std::size_t>(i) % loops_.size() + 1 == program_.repeats[loop_of(i)].end;
  }

  /// The last accesses, by lane, that it comes behind: with the last of a lane those before it are complete.
  [[nodiscard]] Clock wanted_by(const Instruction& instruction) const {
    Clock wanted = before_all();
    const auto after = [&](const std::vector<Value>& values, bool writes) {
      for (const Value value : values) {
        const auto [begin, end] = ranges_[value.storage];
        for (auto at = std::prev(histories_.upper_bound(begin));
             at != histories_.end() && at->first < end; ++at) {
          const History& history = at->second;
          std::int64_t& last = wanted[history.writer_lane];
          last = std::max(last, history.writer);
          if (!writes) continue;
          for (std::size_t l = 0; l < lane_count; ++l) {
            wanted[l] = std::max(wanted[l], history.readers[l]);
          }
        }
      }
    };
    after(instruction.reads, false);
    after(instruction.writes, true);
    after(instruction.accumulates, true);
    return wanted;
  }

  /// Where the history of a byte begins that from there on may differ from that of the byte before.
  Histories::iterator part_at(Bytes byte) {
    const auto next = histories_.upper_bound(byte);
    const auto part = std::prev(next);
    return part->first == byte ? part : histories_.emplace_hint(next, byte, part->second);
  }

  void read(ByteRange range, std::size_t lane, std::int64_t reader) {
    const auto end = part_at(range.end);
    for (auto part = part_at(range.begin); part != end; ++part) part->second.readers[lane] = reader;
  }

  void write(ByteRange range, const History& by) {
    const auto end = part_at(range.end);
    const auto part = part_at(range.begin);
    part->second = by;
    histories_.erase(std::next(part), end);
  }

  /// With its last instruction all of a body is complete, and its lanes go on. From outside, it stands for all.
  void close_loop(std::int64_t last) {
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
      if (history.writer >= begin) history = {last, lane};
      for (std::int64_t& reader : history.readers) {
        if (reader < begin) continue;
        reader = -1;
        history.readers[lane] = last;
      }
    }
  }

  const Program& program_;
  std::vector<ByteRange> ranges_{};  // by storage
  std::vector<std::uint32_t> loops_;
  Histories histories_{{0, History{}}};
  std::vector<Clock> clocks_;  // what whoever waits for it knows
  Clock clock_ = before_all();
  Clock last_ = before_all();
};

}  // namespace reef::inline v0::schedule::detail
