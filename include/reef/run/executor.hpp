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

/// A runner of one rank's program, again and again: every lane (in-order queue) runs its own instructions and waits for
/// their dependencies. One run of the program is a round.
///
/// The compute lane leads the loops: it submits the messages of an iteration, lets the other lanes of the body run
/// theirs, and begins the next iteration when all of this one is complete. A queue's instructions behind a body are
/// submitted when the loop has ended, so that they stay behind the iterations. The compute lane does not decide when a
/// loop that ranks share ends: it reads the result of the instruction in which the ranks agree.
///
/// | blocks | run() until the round is complete on the device and on the wire                  |
/// | cost   | per instruction one event, and a wait for each dependency on another lane; per   |
/// |        | iteration the compute lane stands still until the iteration is complete on the   |
/// |        | device                                                                           |
/// | errors | the exception of a handler, which the other ranks are told, or of comm. Then the |
/// |        | executor and the Progress object are unusable on all ranks, and the round is not |
/// |        | complete                                                                         |
/// | life   | device, progress, lanes and program outlive the executor                         |
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

  /// Runs the program once. All ranks call run() the same number of times.
  void run();

  /// Adds to a table the messages that this rank has sent so far, and the time in which its computation stood still for
  /// them: on a device with asynchronous queues, the time of the thread that feeds these. To be called between runs.
  /// Does not add the loss of precision by codecs.
  void add_to(LinkTable& table) const;

  /// Returns the number of iterations of each loop of the program in the last run. During a run, code of a loop's body
  /// reads here the iterations before this one, and code that waits for the loop reads all of them. The span stays
  /// valid.
  [[nodiscard]] std::span<const int> trip_counts() const { return trip_counts_; }

  /// Sets the number of iterations that each loop of the program runs the next time, whatever its condition: the
  /// iterations of another run reproduce the bits of that run. Throws ScheduleError unless there is a count, 0 or more,
  /// for each loop; run() throws it if ranks that share a loop were given different counts.
  void replay(std::vector<int> trip_counts);

  /// Sets the least seconds that each instruction takes on its queue of the device, from the next run on, to emulate a
  /// slower device. The queue sleeps for the rest of that time, and catches up on delays and slow kernels: instructions
  /// without a wait between them take the longer of the sums of both times. Throws ScheduleError unless there is a
  /// number from 0 to a million for each instruction, and for a device whose kernels do not run on threads of the host.
  void pace(const std::vector<Seconds>& seconds);

private:
  using Wait = detail::Wait;
  using Step = detail::Step;
  using Part = detail::Part;
  using Loop = detail::Loop;
  using Lane = device::AnyLane;

  static constexpr auto leader = static_cast<std::size_t>(schedule::Lane::compute);

  /// Releases queues that wait for events that will not happen, and starts no more instructions: run() then throws the
  /// error of the instruction or of the communication. Any thread may call it.
  void abandon();
  /// Keeps the first exception, releases the other queues, and tells the other ranks.
  void fail();

  void submit_all();
  void submit(std::size_t i);
  /// Blocks until all sends and receives of this run are complete on this rank.
  void wait_for_queues();

  void walk(Lane& lane, std::size_t index);
  void walk_part(Lane& lane, std::size_t index, const Part& part);
  void begin_work(LaneWork& work, const Step& step, std::int64_t since) const;
  /// Sleeps until the time `end`, or until the run is abandoned.
  void rest_until(Seconds end) const;
  /// Waits for instruction `i` on a lane (in-order queue), measures the time, and returns true if the lane had to wait.
  /// On a device whose events cost time to query, measures only waits for messages, and others while a trace is
  /// written.
  bool wait_and_measure(Lane& lane, const Wait& wait, std::size_t i, bool traced);

  /// Runs the compute queue's part of a loop, which decides how often the loop runs.
  void lead(Lane& lane, const Part& part);
  /// Runs another queue's part of a loop: one iteration each time the compute queue decides to continue.
  void follow(Lane& lane, std::size_t index, Part& part);
  [[nodiscard]] bool goes_on(const Loop& loop, std::size_t index) const;
  [[nodiscard]] bool is_done(std::size_t index, int iterations) const;
  /// Tells the other ranks whether this rank is done with a loop. Runs on the progress thread; the compute queue, which
  /// counts iterations, waits for it.
  void announce_loop_end(const Step& step);

  comm::Progress& progress_;
  Lanes& lanes_;
  const schedule::Program& program_;
  bool on_host_;
  Stalls stalls_;
  detail::StepTable table_;
  detail::RoundTrace trace_;
  bool paced_ = false;  ///< true if instructions have least times; written between runs only
  std::atomic<bool> abandoned_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;      ///< the first exception of this run; protected by error_mutex_ while the program runs
  /// Number of iterations of each loop; used by the compute queue alone while the program runs.
  std::vector<int> trip_counts_;
  std::vector<int> replay_;       ///< fixed number of iterations of each loop, or empty; written between runs only
  /// Record of what each device queue does, for ranks that wait; null for message queues.
  std::array<std::unique_ptr<LaneWork>, schedule::lane_count> works_{};
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/executor.ipp>
#endif
