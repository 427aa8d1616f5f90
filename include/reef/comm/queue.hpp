#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/detail/collective_scope.hpp>
#include <reef/comm/task.hpp>
#include <reef/trace/sink.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// A list of tasks in order: a task starts when the task before it is complete,
/// or, if that is posted (Completion), has started. Progress::queue creates it.
///
/// Queues run concurrently. Collectives are matched by the queue's name: all ranks submit the same
/// collectives in the same order to the queue of that name. Collectives of a Group are matched by
/// the names of queue and group: its members submit the same ones in the same order, whatever
/// other groups submit. Point-to-point tasks are matched by their own name, whatever the queue.
///
/// A queue runs one collective at a time. So ranks that are in several groups submit the collectives of these in
/// an order without a cycle of waits, such as the order of one list of all collectives.
///
/// \code
/// // given: comm::Progress& progress, comm::Task& first, comm::Task& second
/// comm::Queue& queue = progress.queue("reduce");
/// progress.submit(queue, first);
/// progress.submit(queue, second);  // starts when `first` is complete
/// progress.wait(second);
/// \endcode
class Queue {
public:
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] const std::string& name() const& { return name_; }
  [[nodiscard]] std::string name() const&& { return name_; }

private:
  friend class detail::ProgressEngine;

  Queue(std::string name, trace::Track* track) : name_(std::move(name)), track_(track) {}

  std::string name_;
  trace::Track* track_;
  // The first and the last task of the list, guarded by the Progress object's lock.
  Task* head_ = nullptr;
  Task* tail_ = nullptr;
  // The progress of collectives by group; the first entry is that of all ranks.
  std::vector<std::unique_ptr<detail::CollectiveScope>> scopes_;
  // The members below belong to the progress thread alone.
  std::vector<Task*> posted_;  // tasks under way, in the order in which they started
  std::vector<std::byte> staging_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef
