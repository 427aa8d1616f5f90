#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A record of the seconds for which computation stood still for messages, by instruction of the program.
///
/// Lanes (in-order queues) note for which instructions they waited, and when. For time in which the compute lane waited
/// for another lane, the wait of that lane counts instead, and so on down to messages. After the compute lane's last
/// instruction, waits of the update lane count instead, and after its last one the wait for the end of the round. In a
/// queue of messages, an instruction without messages counts as the last one before it that has messages.
///
/// | threads | add() on the lane's thread, computed() on the compute lane's; others between rounds |
/// | bits    | only clocks are read: no computed number changes                                    |
///
/// \code
/// // given: const schedule::Program& program
/// run::Stalls stalls(program);
/// stalls.begin_round();
/// stalls.add(2, 1, 0.25, 0.75);  // instruction 2 waited for instruction 1
/// stalls.end_round();
/// const Seconds exposed = stalls.exposed()[1];
/// \endcode
class Stalls {
public:
  explicit Stalls(const schedule::Program& program);

  void begin_round() {
    for (auto& stalls : stalls_) stalls.clear();
    computed_ = 0;
  }

  /// Notes that instruction `i` waited for instruction `on`, from one time to another.
  void add(std::size_t i, std::size_t on, Seconds from, Seconds to) {
    stalls_[static_cast<std::size_t>(lanes_[i])].push_back({on, from, to});
  }

  /// Notes the time at which the compute queue finished its last instruction of this run.
  void computed(Seconds at) { computed_ = at; }

  /// Adds seconds at the end of a run in which only the messages of instruction `on` were left.
  void wait_for_end(std::size_t on, Seconds seconds) { exposed_[on] += seconds; }

  void end_round();

  /// Returns the seconds for which computation stood still so far, by instruction that sends or receives.
  [[nodiscard]] const std::vector<Seconds>& exposed() const& { return exposed_; }
  [[nodiscard]] std::vector<Seconds> exposed() const&& { return exposed_; }

private:
  static constexpr std::size_t none = (std::numeric_limits<std::size_t>::max)();

  struct Stall {
    std::size_t on;
    Seconds from;
    Seconds to;
  };

  /// Adds the stalls of queue `of` in [from, to) to the messages that caused them in the end. `met`: the queues
  /// followed so far, none of which is followed again.
  void expose(schedule::Lane of, Seconds from, Seconds to, unsigned met);

  std::array<std::vector<Stall>, schedule::lane_count> stalls_{};  ///< the stalls of this run, by queue
  std::vector<Seconds> exposed_;
  std::vector<schedule::Lane> lanes_;
  /// By instruction: the instruction with messages to which its stalls are counted.
  std::vector<std::size_t> messages_;
  Seconds computed_ = 0;
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/stalls.ipp>
#endif
