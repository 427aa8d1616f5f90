#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include <reef/core/units.hpp>
#include <reef/run/detail/step_table.hpp>
#include <reef/run/lanes.hpp>

namespace reef {
inline namespace v0 {
namespace run::detail {

/// What a round tells the trace: when each instruction ran, and what it waited for.
class RoundTrace {
public:
  /// A run of an instruction. A device writes its times.
  struct Stamp {
    std::size_t instruction = 0;
    std::uint32_t id = 0;
    std::uint32_t cause = 0;  ///< the id of what it waited for, last of all
    Seconds begin = 0;        ///< on the device
    Seconds end = 0;          ///< 0: not yet
  };

  RoundTrace(Lanes& lanes, StepTable& table) : lanes_(lanes), table_(table) {}

  void begin_round();
  void begin_iteration(Loop& loop) {
    if (lanes_.sink != nullptr) loop.ids = lanes_.sink->ids(loop.size);
  }
  /// Gives what ran to the tracks: at the end, since a device tells only then when it did.
  void end_round();

  /// The trace's id of an instruction in this round, in a body of the iteration that runs or ran last.
  [[nodiscard]] std::uint32_t id_of(std::size_t i, bool previous_round = false) const;
  [[nodiscard]] std::uint32_t id_of(const Wait& wait) const {
    return id_of(wait.on.instruction, wait.on.previous_round);
  }

  /// A stamp for what a lane runs next; null where nobody traces that lane.
  [[nodiscard]] Stamp* next_stamp(std::size_t lane);

private:
  struct Stamps {
    std::deque<Stamp> list;  ///< the device writes into it, so nothing in it moves
    std::size_t used = 0;
  };

  Lanes& lanes_;
  StepTable& table_;
  std::uint32_t ids_ = 0;                              ///< of this round's instructions; written between rounds only
  std::uint32_t former_ids_ = 0;                       ///< of the round before
  std::array<Stamps, schedule::lane_count> stamps_{};  ///< by lane, of the round
};

}  // namespace run::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/detail/round_trace.ipp>
#endif
