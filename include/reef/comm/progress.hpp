#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/detail/aside.hpp>
#include <reef/comm/detail/circle.hpp>
#include <reef/comm/detail/claims.hpp>
#include <reef/comm/detail/control.hpp>
#include <reef/comm/detail/flight_recorder.hpp>
#include <reef/comm/detail/lifetime.hpp>
#include <reef/comm/detail/names.hpp>
#include <reef/comm/detail/naps.hpp>
#include <reef/comm/detail/occupations.hpp>
#include <reef/comm/detail/window.hpp>
#include <reef/comm/detail/wire.hpp>
#include <reef/comm/options.hpp>
#include <reef/comm/queue.hpp>
#include <reef/comm/task.hpp>
#include <reef/core/group.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The one thread of a process that makes MPI calls: it runs the tasks of all queues. While it sleeps, a
/// thread that is in run() may take its place; never do two of them call MPI at once.
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
  explicit Progress(const Communicator& communicator, ProgressOptions options = {})
      : Progress(communicator.handle(), communicator.name(), std::move(options)) {}

  /// Of all ranks of the job.
  explicit Progress(ProgressOptions options)
      : Progress(MPI_COMM_WORLD, "world", std::move(options)) {}

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  ~Progress();

  [[nodiscard]] int rank() const { return data_.rank(); }
  [[nodiscard]] int size() const { return data_.size(); }

  /// How collectives travel here.
  [[nodiscard]] Transport transport() const {
    return window_ != nullptr ? Transport::window : Transport::messages;
  }
  /// Whether large collectives in shared memory read the other ranks' arrays where they are, on all ranks:
  /// ProgressOptions::read_peers where the system allows it.
  [[nodiscard]] bool reads_peers() const { return window_ != nullptr && window_->reads_peers(); }
  [[nodiscard]] Bytes piece_bytes() const { return options_.piece_bytes; }

  /// The queue of that name, made when first asked for; lives as long as this. Any thread.
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

  /// Appends `task` to the queue and blocks until it is complete; throws what went wrong. Any thread, but
  /// not from a callback, which is an OptionError.
  ///
  /// While the progress thread sleeps, this thread takes its place, for a millisecond and for as long as something
  /// moves: a task that is done by then costs no hand-over between threads.
  void run(Queue& queue, Task& task);

  /// Blocks until the task's last submission is complete; throws what went wrong. Any thread, but
  /// not from a callback, which is an OptionError. It sleeps, and on shaped links yields for the last 100 us, so that it goes on
  /// when the task is done and not when it has been woken.
  void wait(const Task& task);

  /// Blocks until no task is in flight; throws what went wrong.
  void wait_all();

  /// Fails with an exception of this rank that no task throws, such as a lane's: the other ranks are
  /// told its text; here wait() and submit() throw it. Returns at once, and changes nothing after
  /// another failure; any thread.
  void give_up(std::exception_ptr reason);

  /// Throws what went wrong, if something did. Any thread.
  void throw_failure();

  /// Says that this rank does something: a compute lane calls it per instruction, so that peers who
  /// wait for long can tell a slow rank from a stuck one. One relaxed increment; any thread.
  void tick() { activity_.fetch_add(1, std::memory_order_relaxed); }

  /// Ends a nap in which a first task of its queue waits until it is ready: a lane calls it when what a
  /// `ready` waits for has come. Any thread.
  void wake();

  /// What the threads of this rank are at; outlives this with whoever holds it.
  [[nodiscard]] const std::shared_ptr<detail::Occupations>& occupations() const {
    return occupations_;
  }

  /// What this rank sent so far. Any thread.
  [[nodiscard]] Meter meter() const { return meter_.read(); }

private:
  friend class SharedCounter;
  friend void detail::retire(Task& task, Progress& progress) noexcept;

  enum class Stop : std::uint8_t { no, drain, unwinding };

  struct Overdue {
    std::string text;
  };

  /// A queue that has tasks, and the first of those that it has not posted.
  struct Turn {
    Queue* queue;
    Task* first;
  };

  /// A running task of which all messages are here.
  struct Ending {
    Task* task;
    std::int64_t at;  // when the last of them may be seen
  };

  /// Whoever blocks in a callback waits for itself.
  void require_no_callback(const char* called) const;

  /// Throws the failure, if there is one. Under the lock.
  void rethrow();

  Progress(MPI_Comm parent, const std::string& name, ProgressOptions options);

  /// Freeing is for ranks that end together.
  void leave_to_mpi();

  static int size_of(MPI_Comm ranks);

  // Who submits: detail/progress_submission.hpp.
  /// True if it is the first of its queue.
  bool append(Queue& queue, Task& task, std::function<bool()> ready,
              std::function<void()> completed, Readiness readiness);
  void check_submission(Task& task);
  /// What the queue has for the group, or for all ranks: made when first asked for. Under the lock. Throws
  /// OptionError if the name was another group's.
  detail::Circle& circle(Queue& queue, const std::optional<Group>& group);
  /// The half of rank 0 of the shared counter of that name, made when first asked for; lives as long
  /// as this, so that it answers until all ranks are done.
  detail::ClaimDesk& claim_desk(const std::string& name);

  /// Blocks until the task is complete or failed, for who cannot throw. Any thread but the progress
  /// thread.
  void outlast(const Task& task) noexcept;

  // The progress thread: detail/progress_thread.hpp; from beat() on detail/progress_end.hpp.
  void serve();
  /// Takes the progress thread's place for a moment, for a task of this thread's.
  void drive(const Task& task);
  /// Calls `part`; what it throws makes this object unusable.
  template <class Part>
  void guarded(Part&& part) noexcept;
  bool busy();
  bool poll();
  /// Tests all messages, as often as it is of use.
  bool poll_wire();
  /// Gives a turn to the tasks that each queue has posted, and to its first.
  bool step();
  /// How long, in ns, who is not woken may leave off looking.
  [[nodiscard]] std::int64_t quiet() const;
  /// Calls who waits for a task that is about to be done. Until when to rest, at most.
  std::int64_t call_ahead();
  void start(Queue& queue, Task& task);
  /// Lets the next task of the queue start before this, its first, is complete. Returns that one, if any.
  Task* post(Queue& queue, Task& task);
  /// Moves a running task on. True if something moved.
  bool advance(Queue& queue, Task& task);
  void complete(Queue& queue, Task& task);
  /// All ranks take part; a call is this rank's alone and counts by its own name.
  static bool is_collective(const Task& task);
  /// A collective that shared memory may carry.
  static bool may_use_window(const Task& task);
  /// It moves data of the step: what the trace counts as communication.
  static bool is_transfer(const Task& task);
  /// What numbers the uses of a transfer or a call.
  static std::uint64_t own_key(const Task& task);
  /// The same number for a send and its receive; 0 for collectives.
  [[nodiscard]] trace::Links links_of(const Task& task) const;
  void beat(std::int64_t now);
  [[nodiscard]] detail::Standing standing();
  /// Calls visit(task) for each that has started.
  template <class Visit>
  void for_each_running(const Visit& visit);
  /// What this rank is at, if anything, for whoever waits for it.
  [[nodiscard]] std::vector<detail::Work> work();
  /// Says that this rank is at work, where others wait for longer than an operation may take.
  void explain(std::int64_t now);
  /// What this rank is at, and does last.
  [[nodiscard]] std::string dump();
  /// That use of its operation, alike on all ranks that take part.
  [[nodiscard]] std::uint64_t meeting_of(const Task& task) const;
  /// What it does counts as a sign that this rank gets on.
  [[nodiscard]] static bool counts(const Task& task) { return !task.fills_ || !task.fills_(); }
  void forgive();
  void hear(int peer, detail::Signal signal, const std::string& text);
  /// Throws Overdue when a running task waits for somebody who does not come.
  void watch(std::int64_t now);
  void watch(Task& task, std::int64_t now);
  [[nodiscard]] std::string overdue(const Task& task, const detail::Hold& hold,
                                    std::int64_t now) const;
  enum class Why : std::uint8_t { mismatch, deadline, thrown, reported, unwinding };
  /// Makes this object unusable: gathers what the ranks did last, tells everyone, wakes who waits.
  void fail(std::string text, Why why) noexcept;
  void gather_dumps();
  void stop(Stop how);
  /// Throws what give_up was given. Once told to stop: lets the queues run dry, says farewell, and
  /// waits for the others'.
  void finish();
  [[nodiscard]] std::int64_t last_sign() const;

  // MPICH moves little per test: test more often before each nap.
#if defined(MPICH_VERSION)
  static constexpr int polls_per_round = 16;
#else
  static constexpr int polls_per_round = 1;
#endif
  static constexpr Seconds least_patience = 2;  // with ranks that wait for each other
  static constexpr std::int64_t longest_drive_ns = 1'000'000;  // signs of life are the thread's
  static inline const std::string prefix = "reef::comm: ";

  const detail::MpiUser mpi_{
      "reef::comm::Progress"};  // first: whatever of it goes with the rest still has MPI
  const int exceptions_ = std::uncaught_exceptions();
  const ProgressOptions options_;
  detail::ReturnedErrors returned_errors_;
  Communicator data_;
  Communicator control_comm_;
  detail::LiveMeter meter_;
  detail::Names names_;
  const std::shared_ptr<detail::Occupations> occupations_ = std::make_shared<detail::Occupations>();
  std::unique_ptr<detail::SharedWindow> window_;
  std::atomic<std::uint64_t> activity_{0};

  std::mutex mutex_;  // guards the queues' lists and what follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<detail::ClaimDesk>> desks_;
  std::uint64_t tasks_ = 0;
  std::exception_ptr given_up_;  // what give_up was given
  std::exception_ptr failure_;
  std::string failure_text_;
  bool told_ = false;
  bool retired_ = false;  // a task died in flight
  Stop stop_ = Stop::no;

  detail::Naps naps_;
  std::atomic<int> asks_{0};  // 1: some queue's first task was not ready, or may turn out so
  detail::Aside aside_{[this] { naps_.wake(); }};

  // The progress thread's own, and in drive() another's: of who holds this.
  std::mutex engine_;
  std::atomic<std::thread::id> driver_{};  ///< who holds it, and calls callbacks
  detail::Wire wire_;
  detail::Control control_;
  detail::FlightRecorder recorder_;
  std::unordered_map<std::uint64_t, std::uint32_t> own_;
  std::vector<Turn> turn_;
  std::vector<Ending> endings_;
  std::vector<int> missing_;
  std::vector<std::string> dumps_;
  std::int64_t pause_ns_ =
      detail::to_ns(options_.deadline > 0 ? (std::min)(1.0, options_.deadline / 2) : 1.0);
  std::int64_t shortest_poll_ns_ = 1000;  // by MPI, of late
  std::int64_t next_beat_ = 0;
  std::int64_t next_watch_ = 0;
  std::int64_t next_explanation_ = 0;  // no sooner, of what is explained
  std::int64_t explained_since_ = 0;   // when that began
  std::int64_t quiet_until_ = 0;
  bool looks_ = false;  // a task waits for what nobody tells
  std::int64_t parting_ = 0;
  bool failed_ = false;
  bool reported_ = false;  // by another rank
  bool farewell_ = false;
  bool leave_ = false;
  bool parted_ = false;
  std::thread thread_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/progress.ipp>
#endif
