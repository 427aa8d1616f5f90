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

/// Runs the tasks of all queues on the one thread of a process that makes MPI calls. While that thread sleeps, a thread
/// that is in run() may take its place; never do two of them call MPI at once.
///
/// | who      | all ranks construct and destroy it: collective, both block. One per process            |
/// | calls    | while it lives nobody else calls MPI, unless MPI grants MPI_THREAD_MULTIPLE; errors     |
/// |          | on MPI_COMM_WORLD and MPI_COMM_SELF are returned meanwhile, not fatal                   |
/// | polling  | The thread tests messages again at once while something moves. Else it naps between two |
/// |          | tests: for 1/32 of the wait so far, from 50 us to 8 ms, and for at least 4 ms where     |
/// |          | every task waits for a call of wake(). Without a task it sleeps until it has to send    |
/// |          | the next sign of life. On shaped links, on a core that others use, messages that arrive |
/// |          | within 100 us are seen together                                                         |
/// | deadline | counts from the last message or sign of life of a peer that somebody waits for: a rank   |
/// |          | that computes, or whose messages are on emulated links, is late, not dead, and says so   |
/// |          | on standard error. Ranks that wait for each other are lost. See ProgressOptions           |
/// | errors   | MpiError, DeadlineError, or what a callback threw, out of wait() and the next submit(); |
/// |          | the object is unusable then, the other ranks are told, and unfinished tasks' buffers    |
/// |          | may be written to until the process ends                                                |
/// | end      | the destructor completes what was submitted, then waits until all ranks are there; when |
/// |          | an exception destroys it, it tells the others instead, whose tasks fail                  |
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

  /// Constructs it for all ranks of the job.
  explicit Progress(ProgressOptions options);

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  ~Progress();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Returns the transport of collectives.
  [[nodiscard]] Transport transport() const;
  /// True if large collectives in shared memory read the other ranks' arrays where they are, on all ranks:
  /// ProgressOptions::read_peers where the system allows it.
  [[nodiscard]] bool reads_peers() const;
  [[nodiscard]] Bytes piece_bytes() const;

  /// Returns the queue of that name, made when first asked for; it lives as long as this object. Any thread.
  Queue& queue(const std::string& name);

  /// Appends `task` to the queue. Returns at once; any thread.
  ///
  /// The task starts once `ready` returns true; the progress thread asks it, or a thread that is in run().
  /// With Readiness::told, whoever makes it true then calls wake(). The progress thread naps for longer
  /// meanwhile, up to 8 ms: without that call the task may start so late.
  ///
  /// `completed` is called by the same threads when the task is done, before wait() returns. Both callbacks are
  /// short, never block, and may submit other tasks, but not run() them or wait for them.
  ///
  /// Throws OptionError if the task is in flight, or sends to a rank that is not there; of a collective, if its
  /// group lacks this rank, or had other members before on this queue.
  void submit(Queue& queue, Task& task, std::function<bool()> ready = {},
              std::function<void()> completed = {}, Readiness readiness = Readiness::polled);

  /// Appends `task` to the queue and blocks until it is complete; throws the error of the Progress object, if there is
  /// one. Any thread, but not from a callback, which is an OptionError.
  ///
  /// While the progress thread sleeps, this thread takes its place, for a millisecond and for as long as something
  /// moves: a task that is done by then costs no hand-over between threads.
  void run(Queue& queue, Task& task);

  /// Blocks until the task's last submission is complete; throws the error of the Progress object, if there is one. Any
  /// thread, but not from a callback, which is an OptionError. It sleeps, and on shaped links yields for the last 100
  /// us, so that it goes on when the task is done and not when it has been woken.
  void wait(const Task& task);

  /// Blocks until no task is in flight; throws the error of the Progress object, if there is one.
  void wait_all();

  /// Fails with an exception of this rank that no task throws, such as a lane's: the other ranks are told its text;
  /// wait() and submit() of this rank throw it. Returns at once, and changes nothing after another failure; any thread.
  void give_up(std::exception_ptr reason);

  /// Throws the error of the Progress object, if there is one. Any thread.
  void throw_failure();

  /// Notes that this rank does something: a compute lane calls it per instruction, so that peers who wait for long can
  /// tell a slow rank from a stuck one. One relaxed increment; any thread.
  void tick();

  /// Ends a nap in which the first task of a queue waits until it is ready: a lane calls it when the event that a
  /// `ready` waits for has come. Any thread.
  void wake();

  /// Returns the record of what the threads of this rank are at; outlives this object with its holders.
  [[nodiscard]] const std::shared_ptr<detail::Occupations>& occupations() const;

  /// Returns the bytes and messages that this rank sent so far. Any thread.
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
