#pragma once

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
#include <reef/comm/detail/callback_thread.hpp>
#include <reef/comm/detail/claims.hpp>
#include <reef/comm/detail/collective_scope.hpp>
#include <reef/comm/detail/control.hpp>
#include <reef/comm/detail/flight_recorder.hpp>
#include <reef/comm/detail/lifetime.hpp>
#include <reef/comm/detail/names.hpp>
#include <reef/comm/detail/naps.hpp>
#include <reef/comm/detail/occupations.hpp>
#include <reef/comm/detail/returned_errors.hpp>
#include <reef/comm/detail/window.hpp>
#include <reef/comm/detail/wire.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/comm/options.hpp>
#include <reef/comm/queue.hpp>
#include <reef/comm/task.hpp>
#include <reef/core/group.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// What is behind a Progress: its thread, and all that it works with. Included by progress.ipp, and by what that
/// includes.
class ProgressEngine {
public:
  /// Of a process `alone`, which takes no MPI; else `parent` is duplicated.
  ProgressEngine(MPI_Comm parent, bool alone, const std::string& name, ProgressOptions options);
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;
  ~ProgressEngine();

  [[nodiscard]] int rank() const { return data_.rank(); }
  [[nodiscard]] int size() const { return data_.size(); }
  [[nodiscard]] bool has_window() const { return window_ != nullptr; }
  [[nodiscard]] bool reads_peers() const { return window_ != nullptr && window_->reads_peers(); }
  [[nodiscard]] Bytes piece_bytes() const { return options_.piece_bytes; }
  [[nodiscard]] Meter meter() const { return meter_.read(); }
  [[nodiscard]] const std::shared_ptr<Occupations>& occupations() const { return occupations_; }

  // What Progress says of these.
  Queue& queue(const std::string& name);
  void submit(Queue& queue, Task& task, std::function<bool()> ready,
              std::function<void()> completed, Readiness readiness);
  void run(Queue& queue, Task& task);
  void wait(const Task& task);
  void wait_all();
  void give_up(std::exception_ptr reason);
  void throw_failure();
  void tick() { activity_.fetch_add(1, std::memory_order_relaxed); }
  void wake();

  /// The half of rank 0 of the shared counter of that name, made when first asked for; lives as long
  /// as this, so that it answers until all ranks are done.
  ClaimDesk& claim_desk(const std::string& name);

  /// Blocks until the task is complete or failed, for who cannot throw. Any thread but the progress
  /// thread.
  void outlast(const Task& task) noexcept;

  /// What Task::retire does.
  void retire(Task& task) noexcept;

private:
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

  /// Freeing is for ranks that end together.
  void leave_to_mpi();

  static int size_of(MPI_Comm ranks);

  static Communicator copy_of(MPI_Comm parent, bool alone, const std::string& name);

  // Who submits: progress_submission.hpp.
  /// True if it is the first of its queue.
  bool append(Queue& queue, Task& task, std::function<bool()> ready,
              std::function<void()> completed, Readiness readiness);
  void check_submission(Task& task);
  /// What the queue has for the group, or for all ranks: made when first asked for. Under the lock. Throws
  /// OptionError if the name was another group's.
  CollectiveScope& scope(Queue& queue, const std::optional<Group>& group);

  // The progress thread: progress_thread.hpp; from beat() on progress_end.hpp.
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
  [[nodiscard]] Standing standing();
  /// Calls visit(task) for each that has started.
  template <class Visit>
  void for_each_running(const Visit& visit);
  /// What this rank is at, if anything, for whoever waits for it.
  [[nodiscard]] std::vector<Work> work();
  /// Says that this rank is at work, where others wait for longer than an operation may take.
  void explain(std::int64_t now);
  /// What this rank is at, and does last.
  [[nodiscard]] std::string dump();
  /// That use of its operation, alike on all ranks that take part.
  [[nodiscard]] std::uint64_t meeting_of(const Task& task) const;
  /// What it does counts as a sign that this rank gets on.
  [[nodiscard]] static bool counts(const Task& task) { return !task.fills_ || !task.fills_(); }
  void forgive();
  void hear(int peer, Signal signal, const std::string& text);
  /// Throws Overdue when a running task waits for somebody who does not come.
  void watch(std::int64_t now);
  void watch(Task& task, std::int64_t now);
  [[nodiscard]] std::string overdue(const Task& task, const Hold& hold, std::int64_t now) const;
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

  // First: whatever of it goes with the rest still has MPI. Of a process alone none.
  std::optional<const MpiUser> mpi_;
  const int exceptions_ = std::uncaught_exceptions();
  const ProgressOptions options_;
  std::optional<ReturnedErrors> returned_errors_;  // of a process alone none
  Communicator data_;
  Communicator control_comm_;
  LiveMeter meter_;
  Names names_;
  const std::shared_ptr<Occupations> occupations_ = std::make_shared<Occupations>();
  std::unique_ptr<SharedWindow> window_;
  std::atomic<std::uint64_t> activity_{0};

  std::mutex mutex_;  // guards the queues' lists and what follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<ClaimDesk>> desks_;
  std::uint64_t tasks_ = 0;
  std::exception_ptr given_up_;  // what give_up was given
  std::exception_ptr failure_;
  std::string failure_text_;
  bool told_ = false;
  bool retired_ = false;  // a task died in flight
  Stop stop_ = Stop::no;

  const std::shared_ptr<Naps> naps_ = std::make_shared<Naps>();  // completions of AwaitTasks keep it
  std::atomic<int> asks_{0};  // 1: some queue's first task was not ready, or may turn out so
  CallbackThread callback_thread_{[this] { naps_->wake(); }};

  // The progress thread's own, and in drive() another's: of who holds this.
  std::mutex engine_;
  std::atomic<std::thread::id> driver_{};  ///< who holds it, and calls callbacks
  Wire wire_;
  Control control_;
  FlightRecorder recorder_;
  std::unordered_map<std::uint64_t, std::uint32_t> own_;
  std::vector<Turn> turn_;
  std::vector<Ending> endings_;
  std::vector<int> missing_;
  std::vector<std::string> dumps_;
  std::int64_t pause_ns_ =
      to_ns(options_.deadline > 0 ? (std::min)(1.0, options_.deadline / 2) : 1.0);
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

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
