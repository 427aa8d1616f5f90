#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include <reef/comm/communicator.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/meter.hpp>
#include <reef/comm/options.hpp>
#include <reef/comm/queue.hpp>
#include <reef/comm/task.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {
class Occupations;
class ProgressEngine;
}  // namespace detail

/// The owner of the progress thread, the only one of a process that calls MPI, which runs the tasks of all
/// queues. While that thread sleeps, a thread in run() may take its place; two threads never call MPI at once.
///
/// | who      | all ranks construct and destroy it: collective, both block. One for each process            |
/// | calls    | while it exists no other code may call MPI, unless MPI grants MPI_THREAD_MULTIPLE;          |
/// |          | errors on MPI_COMM_WORLD and MPI_COMM_SELF are returned meanwhile, not fatal                |
/// | polling  | The thread tests messages again at once while something moves. Else it naps between two     |
/// |          | tests: for 1/32 of the wait so far, from 50 us to 8 ms, and for at least 4 ms if            |
/// |          | every task waits for a call of wake(). Without a task it sleeps until it has to send        |
/// |          | the next sign of life. On shaped links, on a core that others use, messages that arrive     |
/// |          | within 100 us of each other are processed together                                          |
/// | deadline | counts from the last message or sign of life of a peer for which some task waits: a rank    |
/// |          | that computes, or whose messages are on emulated links, counts as late, not as dead, as     |
/// |          | is reported on standard error. Ranks that wait for each other fail. See ProgressOptions     |
/// | errors   | MpiError, DeadlineError, or the exception of a callback, from wait() and the next submit(); |
/// |          | the object is unusable then, the other ranks are told, and unfinished tasks' buffers        |
/// |          | may be written to until the process ends                                                    |
/// | end      | the destructor completes all submitted tasks, then waits for the destructors of all ranks;  |
/// |          | if an exception destroys the object, it tells the other ranks instead, whose tasks fail     |
///
/// \code
/// // given: std::span<float> gradient
/// const comm::Communicator world;
/// comm::Progress progress(world);
/// comm::AllReduceTask<float> task("gradient", gradient, world.size());
/// progress.submit(progress.queue("reduce"), task);
/// // ... what else there is to compute ...
/// progress.wait(task);
/// \endcode
class Progress {
public:
  explicit Progress(const Communicator& communicator, ProgressOptions options = {});

  /// Constructs the object that runs communication, on all ranks of the job.
  explicit Progress(ProgressOptions options);

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  ~Progress();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Returns the way in which collectives move data: MPI messages or shared memory.
  [[nodiscard]] Transport transport() const;
  /// Returns true if large collectives in shared memory read the other ranks' arrays
  /// directly, on all ranks: ProgressOptions::read_peers is set, and the system allows it.
  [[nodiscard]] bool reads_peers() const;
  [[nodiscard]] Bytes piece_bytes() const;

  /// Returns the task queue of that name, which the first call creates; the queue exists as long as this object. Any
  /// thread.
  Queue& queue(const std::string& name);

  /// Appends a communication task to the queue. Returns at once; any thread.
  ///
  /// The task starts once `ready` returns true; the progress thread calls it, or a thread that is in
  /// run(). With Readiness::told, the thread that makes it true must then call wake(). Meanwhile the
  /// progress thread naps for up to 8 ms: without the call of wake() the task may start that late.
  ///
  /// `completed` is called by the same threads when the task is done, before wait() returns. Both callbacks
  /// must be short, never block, and may submit other tasks, but not run() them or wait for them.
  ///
  /// Throws OptionError if the task is in flight, or sends to a rank that does not exist; for
  /// a collective, if its group lacks this rank, or had other members before on this queue.
  void submit(Queue& queue, Task& task, std::function<bool()> ready = {},
              std::function<void()> completed = {}, Readiness readiness = Readiness::polled);

  /// Appends a communication task to the queue and blocks until it is complete; throws the error of the Progress
  /// object, if there is one. Any thread may call it, but a callback must not (OptionError).
  ///
  /// While the progress thread sleeps, this thread takes its place, for a millisecond and for as long as something
  /// moves: a task that is done by then costs no hand-over between threads.
  void run(Queue& queue, Task& task);

  /// Blocks until the task's last submission is complete; throws the error of the Progress object, if there is one.
  /// Any thread may call it, but a callback must not (OptionError). The thread sleeps, but on shaped links yields
  /// in a loop for the last 100 us, so that it continues when the task is done, without the delay of a wake-up.
  void wait(const Task& task);

  /// Blocks until no communication task is in flight; throws the error of the Progress object, if there is one.
  void wait_all();

  /// Makes this object fail with an exception of this rank that no task threw, such as a kernel's: other ranks get its
  /// text; wait() and submit() of this rank throw it. Returns at once; no effect after another failure; any thread.
  void give_up(std::exception_ptr reason);

  /// Throws the error of the Progress object, if communication has failed. Any thread.
  void throw_failure();

  /// Notes that this rank is active: its compute thread calls it for each instruction, so that peers that wait for long
  /// can distinguish a slow rank from a stuck one. One relaxed increment; any thread.
  void tick();

  /// Ends a nap of the progress thread, so that it calls `ready` functions at once: a device queue's thread calls it
  /// when the event for which such a function waits has occurred. Any thread.
  void wake();

  /// Returns the record of the work of this rank's threads (AtWork), which may outlive this object.
  [[nodiscard]] const std::shared_ptr<detail::Occupations>& occupations() const;

  /// Returns the bytes and messages that this rank has sent so far, by kind of operation. Any thread.
  [[nodiscard]] Meter meter() const;

private:
  friend class SharedCounter;

  explicit Progress(std::unique_ptr<detail::ProgressEngine> engine);

  std::unique_ptr<detail::ProgressEngine> engine_;
  int rank_;
  int size_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/progress.ipp>
#endif
