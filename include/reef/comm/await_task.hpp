#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/task.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {
class Awaiting;
}  // namespace detail

/// A task that another thread completes: its queue stands still until something has happened outside of MPI.
///
/// | wire     | no messages                                                                               |
/// | complete | when Completion::complete() was called, on any thread; the progress thread is woken       |
/// | before   | a call that comes before the task has started counts for its next start; several of them  |
/// |          | count once                                                                                |
/// | deadline | none: the rank counts as at work, as during a CallTask. No thread stands still meanwhile  |
/// | errors   | Completion::fail(exception) makes the Progress object unusable, with that exception       |
///
/// \code
/// // given: comm::Progress& progress
/// comm::AwaitTask task("the answer");
/// std::jthread other([completion = task.completion()] { completion.complete(); });
/// progress.run(progress.queue("reduce"), task);
/// \endcode
class AwaitTask final : public Task {
public:
  /// A handle by which other threads end an AwaitTask, copied as a pointer is. May outlive the task and its Progress
  /// object, and then has no effect.
  class Completion {
  public:
    /// Completes the task that is in flight, or that is started next. Any thread may call it.
    void complete() const;
    /// Makes the task throw `error` in place of completing. Any thread may call it.
    void fail(std::exception_ptr error) const;

  private:
    friend class AwaitTask;
    explicit Completion(std::shared_ptr<detail::Awaiting> awaiting) : awaiting_(std::move(awaiting)) {}

    std::shared_ptr<detail::Awaiting> awaiting_;
  };

  REEF_INLINE explicit AwaitTask(std::string name);
  REEF_INLINE ~AwaitTask() override;

  [[nodiscard]] Completion completion() const { return Completion(awaiting_); }

private:
  REEF_INLINE void start(const detail::Station& station) override;
  REEF_INLINE bool advance() override;
  [[nodiscard]] bool done() const override { return done_; }
  void missing(std::vector<int>& ranks) const override { ranks.clear(); }
  [[nodiscard]] Bytes payload() const override { return 0; }

  std::shared_ptr<detail::Awaiting> awaiting_;
  bool done_ = false;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/await_task.ipp>
#endif
