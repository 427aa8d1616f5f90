#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/detail/callback_thread.hpp>
#include <reef/comm/task.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// A task that calls a function at its turn in the queue, on the thread of the Progress
/// object for calls: for work on host memory that must happen between two messages.
///
/// | wire     | no messages                                                                 |
/// | complete | when the function has returned                                              |
/// | cost     | two hand-overs between threads. All other queues continue meanwhile, so the |
/// |          | function may run for long. Calls run one after another                      |
/// | errors   | an exception of the function makes the Progress object unusable             |
///
/// \code
/// // given: comm::Progress& progress, double& loss
/// comm::CallTask task("halve", [&loss] { loss /= 2; });
/// progress.run(progress.queue("reduce"), task);
/// \endcode
class CallTask final : public Task {
public:
  CallTask(std::string name, std::function<void()> call)
      : Task(Kind::call, std::move(name)), job_(std::move(call)) {}
  REEF_INLINE ~CallTask() override;

private:
  REEF_INLINE void start(const detail::Station& station) override;
  REEF_INLINE bool advance() override;
  [[nodiscard]] bool done() const override { return done_; }
  void missing(std::vector<int>& ranks) const override { ranks.clear(); }
  [[nodiscard]] Bytes payload() const override { return 0; }

  detail::CallbackThread::Job job_;
  bool done_ = false;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/call_task.ipp>
#endif
