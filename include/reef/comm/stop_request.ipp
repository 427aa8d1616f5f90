#pragma once

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>

#include <reef/comm/functions.hpp>
#include <reef/comm/stop_request.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

REEF_INLINE std::int64_t Signalled::now_ns() {
  struct ::timespec time {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

REEF_INLINE void Signalled::handle(int signal, ::siginfo_t* info, void* /*context*/) {
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

REEF_INLINE void Signalled::reset() {
  first.store(0);
  from_anybody.store(0);
  from_launcher.store(0);
}

}  // namespace detail

REEF_INLINE StopRequest::StopRequest() {
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
  for (const int signal : detail::Signalled::numbers) ::sigaddset(&action.sa_mask, signal);
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const int signal = detail::Signalled::numbers[i];
    ::sigaction(signal, nullptr, &before_[i]);
    const bool is_ignored =
        (before_[i].sa_flags & SA_SIGINFO) == 0 && before_[i].sa_handler == SIG_IGN;
    if (signal != SIGHUP || !is_ignored) ::sigaction(signal, &action, nullptr);
  }
}

REEF_INLINE StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < before_.size(); ++i)
    ::sigaction(detail::Signalled::numbers[i], &before_[i], nullptr);
  detail::Signalled::taken.store(false);
}

REEF_INLINE bool StopRequest::agree(Progress& progress) const {
  float asked = this->asked() ? 1.0F : 0.0F;
  all_reduce(progress, "stop request", std::span(&asked, 1));
  return asked > 0;
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
