#pragma once

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include <reef/comm/functions.hpp>
#include <reef/core/error.hpp>

namespace reef::inline v0::comm {

namespace detail {

/// What the handler of signals knows. All that it touches is lock-free.
struct Signalled {
  static inline constexpr std::array<int, 4> signals{SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  static inline std::atomic<int> first{0};
  /// When the first one came from anybody, and from the process that started this one; 0: none has.
  static inline std::atomic<std::int64_t> from_anybody{0};
  static inline std::atomic<std::int64_t> from_launcher{0};
  static inline std::atomic<bool> taken{false};
  static_assert(std::atomic<int>::is_always_lock_free);
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);

  static std::int64_t now_ns() {
    struct ::timespec time {};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  /// A terminal, timeout(1) and several threads may each bring what somebody sent once.
  static constexpr std::int64_t one_event_ns = 500'000'000;

  static void handle(int signal, ::siginfo_t* info, void* /*context*/) {
    const int error = errno;
    const std::int64_t now = now_ns();
    // Before all else: whoever comes second, on another thread, finds when the first one came.
    std::int64_t since = 0;
    bool again = !from_anybody.compare_exchange_strong(since, now);
    if (!again) first.store(signal);
    if (info->si_code == SI_USER && info->si_pid == ::getppid()) {
      // A launcher passes on, some seconds later, what the whole job was sent: its first is no second.
      since = 0;
      again = !from_launcher.compare_exchange_strong(since, now);
    }
    if (again && now - since > one_event_ns) {
      struct ::sigaction action {};
      action.sa_handler = SIG_DFL;
      ::sigaction(signal, &action, nullptr);
      ::raise(signal);  // comes when this handler returns
    }
    errno = error;
  }

  static void reset() {
    first.store(0);
    from_anybody.store(0);
    from_launcher.store(0);
  }
};

}  // namespace detail

/// Takes the signals that ask a job to end, so that its ranks can finish their step and save.
///
///     const comm::StopRequest stop;            // in main, before MPI is started
///     while (...) {
///       trainer.step();
///       if (stop.agree(trainer.progress())) break;   // on all ranks after the same step
///     }
///
/// | signals  | SIGINT, SIGTERM and SIGUSR1, also where they were ignored before, and SIGHUP unless   |
/// |          | it was: under nohup the job outlives its terminal. The first is remembered; another   |
/// |          | one, half a second later or more, ends the process as if nobody took it. What the     |
/// |          | parent process sends is counted apart: a launcher passes on later, once, what a batch |
/// |          | system has sent to its ranks too                                                      |
/// | handler  | remembers signal and time, or ends the process: any thread, any moment. System calls  |
/// |          | go on, but for sleeps, polls and the like, which return early (EINTR)                 |
/// | launcher | mpiexec passes SIGUSR1 on. Of SIGTERM and SIGINT Open MPI's tells its ranks after     |
/// |          | odls_base_sigkill_timeout seconds (1), and kills them after as many again             |
/// | who      | any process, one at a time; its end gives the signals back                            |
/// | errors   | OptionError where there is one already                                                |
class StopRequest {
public:
  StopRequest() {
    if (detail::Signalled::taken.exchange(true)) {
      throw OptionError(
          "reef::comm::StopRequest: there is one already.\n  fix: keep one in main, and hand it "
          "on.");
    }
    detail::Signalled::reset();
    struct ::sigaction action {};
    action.sa_sigaction = &detail::Signalled::handle;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    ::sigemptyset(&action.sa_mask);
    for (const int signal : detail::Signalled::signals) ::sigaddset(&action.sa_mask, signal);
    for (std::size_t i = 0; i < before_.size(); ++i) {
      const int signal = detail::Signalled::signals[i];
      ::sigaction(signal, nullptr, &before_[i]);
      const bool is_ignored =
          (before_[i].sa_flags & SA_SIGINFO) == 0 && before_[i].sa_handler == SIG_IGN;
      if (signal != SIGHUP || !is_ignored) ::sigaction(signal, &action, nullptr);
    }
  }
  ~StopRequest() {
    for (std::size_t i = 0; i < before_.size(); ++i)
      ::sigaction(detail::Signalled::signals[i], &before_[i], nullptr);
    detail::Signalled::taken.store(false);
  }
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The signal that came to this process first; 0 if none came. Any thread.
  [[nodiscard]] int signal() const { return detail::Signalled::first.load(); }
  [[nodiscard]] bool asked() const { return signal() != 0; }

  /// Whether a signal has come to any rank: the same answer on all. All ranks call it; blocks for an
  /// all-reduce of one number. Where something is reduced in each step anyway, asked() can go with it.
  [[nodiscard]] bool agree(Progress& progress) const {
    float asked = this->asked() ? 1.0F : 0.0F;
    all_reduce(progress, "stop request", std::span(&asked, 1));
    return asked > 0;
  }

private:
  std::array<struct ::sigaction, detail::Signalled::signals.size()> before_{};
};

}  // namespace reef::inline v0::comm
