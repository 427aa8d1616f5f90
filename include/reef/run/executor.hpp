#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/core/units.hpp>
#include <reef/device/any_device.hpp>
#include <reef/run/detail/round_trace.hpp>
#include <reef/run/detail/step_table.hpp>
#include <reef/run/handlers.hpp>
#include <reef/run/lane_work.hpp>
#include <reef/run/lanes.hpp>
#include <reef/run/links.hpp>
#include <reef/run/stalls.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Runs a program's rounds: every lane walks its own instructions and waits where a dependency says.
///
/// The compute lane leads the loops: it submits the messages of an iteration, tells the body's other lanes that there
/// is one, and begins the next when all of it is complete. Instructions of a queue behind a body are submitted when the
/// loop is left, so that they stay behind the iterations. The compute lane does not decide about a loop that ranks
/// share: the instruction in which the ranks agree tells it.
///
/// | blocks | run() until the round is complete on the device and on the wire                    |
/// | cost   | per instruction one event, and a wait for each dependency on another lane; per     |
/// |        | iteration the compute lane stands still until the iteration is complete on the     |
/// |        | device                                                                             |
/// | errors | what a handler throws, which the other ranks are told; comm's errors. The executor |
/// |        | and the Progress object are unusable then, on all ranks, and the round is not      |
/// |        | complete                                                                           |
/// | life   | device, progress, lanes and program outlive the executor                           |
///
/// \code
/// // given: device::Host& host, comm::Progress& progress, const schedule::Program& program
/// // given: const schedule::Placement& placement, const run::Handlers<device::Host>& handlers
/// run::Lanes lanes(host, progress, nullptr);
/// run::Executor executor(progress, lanes, program, schedule::derive(program, placement), handlers.table());
/// executor.run();  // one round
/// \endcode
class Executor {
public:
  Executor(comm::Progress& progress, Lanes& lanes, const schedule::Program& program,
           const schedule::Dependencies& dependencies, const HandlerTable& handlers);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();

  /// Runs one round. All ranks call it equally often.
  void run();

  /// Adds the messages that this rank has sent in all rounds, and the time in which its computation has stood still for
  /// them: on a device whose lanes run ahead of it, the time of the thread that feeds them. Between rounds. The loss of
  /// codecs is not known here.
  void add_to(LinkTable& table) const;

  /// Returns how many iterations each loop ran in the last round. Code of a body finds here how many iterations its
  /// loop ran before this one, code that waits for the loop how many it ran in all. The memory stays where it is.
  [[nodiscard]] std::span<const int> trip_counts() const { return trip_counts_; }

  /// Sets the number of iterations that each loop runs in the next round, without asking: with the iterations of
  /// another run, the bits of that run come again. Throws ScheduleError unless there is a count, 0 or more, for each
  /// loop; run() throws it where ranks that share a loop are given different counts.
  void replay(std::vector<int> trip_counts);

  /// Sets the least seconds that each instruction takes on its lane of the device, from the next round on, by its place
  /// in the round. The lane sleeps for the rest, and makes good a delay, also of kernels that took longer: instructions
  /// that run without a wait between them take the longer of both sums. Throws ScheduleError unless there is a number
  /// for each instruction, from 0 to a million, and where lanes are no threads of the host, on which kernels run.
  void pace(const std::vector<Seconds>& seconds);

private:
  using Wait = detail::Wait;
  using Step = detail::Step;
  using Part = detail::Part;
  using Loop = detail::Loop;
  using Lane = device::AnyLane;

  static constexpr auto leader = static_cast<std::size_t>(schedule::Lane::compute);

  /// Releases lanes that wait for what will not come, and starts nothing more: run() then throws the error of the lane
  /// or of the communication. Any thread.
  void abandon();
  /// Keeps the first exception, releases the other lanes, and tells the other ranks.
  void fail();

  void submit_all();
  void submit(std::size_t i);
  /// Blocks until the round's messages are on their way, or have arrived.
  void wait_for_queues();

  void walk(Lane& lane, std::size_t index);
  void walk_part(Lane& lane, std::size_t index, const Part& part);
  void begin_work(LaneWork& work, const Step& step) const;
  /// Sleeps until the time `end`, or until the round is abandoned.
  void rest_until(Seconds end) const;
  /// Waits for an instruction, notes how long, and returns whether it had to wait. Where asking the device costs time,
  /// it asks only for messages, or for the trace.
  bool stand_still(Lane& lane, const Wait& wait, std::size_t i, bool traced);

  /// Runs the compute lane's part of a loop.
  void lead(Lane& lane, const Part& part);
  /// Runs another lane's part of a loop: an iteration for each decision of the compute lane to go on.
  void follow(Lane& lane, std::size_t index, Part& part);
  [[nodiscard]] bool goes_on(const Loop& loop, std::size_t index) const;
  [[nodiscard]] bool is_done(std::size_t index, int iterations) const;
  /// Tells the other ranks whether this rank is done with a loop. Runs on the progress thread: the compute lane, which
  /// counts iterations, waits for it.
  void say(const Step& step);

  comm::Progress& progress_;
  Lanes& lanes_;
  const schedule::Program& program_;
  bool on_host_;
  Stalls stalls_;
  detail::StepTable table_;
  detail::RoundTrace trace_;
  bool paced_ = false;  ///< true if instructions have least times; written between rounds only
  std::atomic<bool> abandoned_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;      ///< the round's first exception; under error_mutex_ while a round runs
  std::vector<int> trip_counts_;  ///< iterations by loop; the compute lane's while a round runs
  std::vector<int> replay_;       ///< fixed iterations by loop, or empty; written between rounds only
  std::array<std::unique_ptr<LaneWork>, schedule::lane_count> works_{};  ///< work of each lane, for ranks that wait;
                                                                         ///< null for queues
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/executor.ipp>
#endif
