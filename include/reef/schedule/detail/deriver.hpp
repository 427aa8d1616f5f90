#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

/// What is known to be complete, by lane: the position of the last instruction.
using Clock = std::array<std::int64_t, lane_count>;

/// Of a time before every instruction.
constexpr Clock before_all() {
  Clock clock{};
  clock.fill(-1);
  return clock;
}

/// Walks rounds in program order and finds, for each instruction, the least set of waits that orders
/// every two accesses to the same bytes of which one writes, and puts what is only waited for behind the last write.
///
/// A loop counts as one: from outside, its last instruction stands for its body.
///
/// On a lane with posted transfers what is complete is no prefix of the lane: so of those lanes a clock knows
/// nothing, and each instruction is waited for by itself.
class Deriver {
public:
  /// `addresses`: by storage, where its bytes begin, in one space. `free`: what is posted is not taken to come
  /// behind what is ahead of it on its lane.
  Deriver(const Program& program, const std::vector<Bytes>& addresses, std::int64_t rounds,
          bool free = false);

  /// The positions that the instruction at position `i`, counted over rounds, waits for; they hold until the next step.
  /// Called once for each position, ascending.
  const std::vector<std::int64_t>& step(std::int64_t i);

  /// What is complete when the instruction of the last step is, itself included.
  [[nodiscard]] const Clock& clock() const { return clock_; }

  /// Clocks know nothing of the lane.
  [[nodiscard]] bool is_apart(std::size_t lane) const { return apart_[lane]; }

private:
  /// The last accesses to some bytes.
  struct History {
    std::int64_t writer = -1;
    std::size_t writer_lane = 0;
    Clock readers = before_all();  // after the writer, by lane; the others came before it
    std::vector<std::int64_t> apart{};  // readers on lanes of which clocks know nothing, ascending
  };
  struct Wanted {
    Clock clock = before_all();
    std::vector<std::int64_t> apart{};  // latest first
  };
  /// Where a storage begins or ends: a place in histories_.
  using Bound = std::size_t;
  struct Range {
    Bound begin, end;
  };
  static constexpr std::size_t word = 64;  ///< bounds in one of parts_

  [[nodiscard]] const Instruction& at(std::int64_t i) const {
    return program_.round[static_cast<std::size_t>(i) % program_.round.size()];
  }

  [[nodiscard]] std::uint32_t loop_of(std::int64_t i) const {
    return loops_[static_cast<std::size_t>(i) % loops_.size()];
  }
  [[nodiscard]] bool ends_loop(std::int64_t i) const;

  void learn(Clock& clock, std::int64_t wait) const;

  /// The last accesses, by lane, that it comes behind: with the last of a lane those before it are complete. Of
  /// lanes with posted transfers all accesses.
  void want(const Instruction& instruction);

  /// The last bound at or before that one, and the first behind it, at which a history begins.
  [[nodiscard]] Bound part_of(Bound bound) const;
  [[nodiscard]] Bound next_part(Bound bound) const;

  /// From there on bytes may have another history than the byte before.
  void part_at(Bound bound);

  void read(Range range, std::size_t lane, std::int64_t reader);

  void write(Range range, const History& by);

  /// With its last instruction all of a body is complete, and its lanes go on. From outside, it stands for all.
  void close_loop(std::int64_t last);

  const Program& program_;
  bool free_;
  std::vector<Range> ranges_{};  // by storage
  std::vector<std::uint32_t> loops_;
  std::array<bool, lane_count> apart_{};  // by lane: something is posted on it
  // By bound, which is much faster than a map from bytes: of those at which one begins, and it goes on to the next
  // such.
  std::vector<History> histories_{};
  std::vector<std::uint64_t> parts_{};  // one bit for each bound, whether a history begins there
  Wanted wanted_{};                     // of the last step
  std::vector<std::int64_t> waits_{};
  std::vector<Clock> clocks_;  // what whoever waits for it knows
  Clock clock_ = before_all();
  Clock last_ = before_all();
};

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/detail/deriver.ipp>
#endif
