#pragma once

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>

#include <reef/comm/detail/signalled.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// A handler of the signals that ask a job to end, so that its ranks can finish their step and save.
///
/// \code
/// // given: comm::Progress& progress, int steps
/// const comm::StopRequest stop;  // in main, before MPI is started
/// for (int step = 0; step < steps; ++step) {
///   // ... Trainer::step() ...
///   if (stop.agree(progress)) break;  // on all ranks after the same step
/// }
/// \endcode
///
/// | signals  | SIGINT, SIGTERM and SIGUSR1, also if they were ignored before, and SIGHUP unless it     |
/// |          | was ignored: under nohup the job outlives its terminal. The first is remembered;        |
/// |          | another one, half a second later or more, ends the process as by default. Signals of    |
/// |          | the parent process are counted apart: a launcher passes on later, once, what a batch    |
/// |          | system has sent to its ranks too                                                        |
/// | handler  | stores signal and time, or ends the process: on any thread, at any moment. System calls |
/// |          | continue, except sleeps, polls and the like, which return early (EINTR)                 |
/// | launcher | mpiexec passes SIGUSR1 on. Open MPI's passes SIGTERM and SIGINT on after                |
/// |          | odls_base_sigkill_timeout seconds (1), and kills its ranks after the same time again    |
/// | who      | any process, one object at a time; its destructor restores the former handlers          |
/// | errors   | OptionError if the process already has one                                              |
class StopRequest {
public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Returns the stop signal that came to this process first; 0 if none came. Any thread.
  [[nodiscard]] int signal() const { return detail::Signalled::first.load(); }
  [[nodiscard]] bool asked() const { return signal() != 0; }

  /// Returns true, on all ranks, if any rank has received a signal. All ranks call it; blocks for an
  /// all-reduce of one number. A program that reduces values in each step anyway can include asked() instead.
  [[nodiscard]] bool agree(Progress& progress) const;

private:
  std::array<struct ::sigaction, detail::Signalled::numbers.size()> before_{};
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/stop_request.ipp>
#endif
