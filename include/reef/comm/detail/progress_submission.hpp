#pragma once

// A part of ProgressEngine: its queues, and how tasks get onto them. Included by progress.ipp, by nobody
// else.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/detail/collective_scope.hpp>
#include <reef/comm/detail/progress_engine.hpp>
#include <reef/comm/detail/ranks.hpp>
#include <reef/core/group.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE Queue& ProgressEngine::queue(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  for (const auto& queue : queues_) {
    if (queue->name_ == name) return *queue;
  }
  trace::Track* const track =
      options_.trace != nullptr ? &options_.trace->track("comm." + name) : nullptr;
  std::unique_ptr<Queue> made(new Queue(name, track));
  scope(*made, {});
  queues_.push_back(std::move(made));
  return *queues_.back();
}

REEF_INLINE CollectiveScope& ProgressEngine::scope(Queue& queue, const std::optional<Group>& group) {
  const std::string_view name = group ? std::string_view(group->name) : std::string_view();
  for (const auto& scope : queue.scopes_) {
    if (scope->group.name != name) continue;
    if (group && scope->group != *group) {
      throw OptionError("reef::comm: the group '", name, "' has ", name_ranks(group->members),
                        ", and had ", name_ranks(scope->group.members), " on queue '", queue.name_,
                        "' before.\n  fix: another name for other members.");
    }
    return *scope;
  }
  Group members = group ? *group : all_of(size());
  const int position = members.position_of(rank());
  queue.scopes_.push_back(std::make_unique<CollectiveScope>(CollectiveScope{std::move(members), position,
                                                           mix(~meeting_id(queue.name_, name)),
                                                           place_of(queue.name_, name)}));
  return *queue.scopes_.back();
}

REEF_INLINE bool ProgressEngine::append(Queue& queue, Task& task, std::function<bool()> ready,
                                        std::function<void()> completed, Readiness readiness) {
  check_submission(task);
  const bool counted = counts(task);  // once it is in flight, whoever waits for it may destroy it
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    rethrow();
    task.scope_ = &scope(queue, task.group_);
    task.progress_ = this;
    task.ready_ = std::move(ready);
    task.completed_ = std::move(completed);
    task.readiness_ = readiness;
    task.awake_until_ = 0;
    task.next_ = nullptr;
    first = queue.head_ == nullptr;
    task.asked_ = first && !task.ready_ ? now_ns() : 0;
    task.state_.store(Task::State::queued, std::memory_order_release);
    (first ? queue.head_ : queue.tail_->next_) = &task;
    queue.tail_ = &task;
    ++tasks_;
  }
  if (counted) tick();
  return first;
}

REEF_INLINE void ProgressEngine::check_submission(Task& task) {
  if (task.in_flight()) {
    throw OptionError("reef::comm: '", task.name(),
                      "' is in flight already.\n  fix: wait for it, or make a second task.");
  }
  const int peer = task.peer();
  if (peer != -1 || task.kind() == Kind::send || task.kind() == Kind::receive) {
    if (peer < 0 || peer >= size() || peer == rank()) {
      throw OptionError("reef::comm: '", task.name(), "' names rank ", peer,
                        " as its peer; this is rank ", rank(), " of ", size(), ".");
    }
    names_.remember(task.operation_, task.kind(), task.name());
    return;
  }
  const auto& group = task.group();
  if (group) check_member(task.name(), *group, rank(), size());
  names_.remember(task.operation_, task.kind(), task.name(),
                  group ? std::string_view(group->name) : std::string_view());
}

REEF_INLINE ClaimDesk& ProgressEngine::claim_desk(const std::string& name) {
  const std::uint64_t operation = operation_id(Kind::claim, name);
  const std::scoped_lock lock(mutex_);
  for (const auto& desk : desks_) {
    if (desk->operation() == operation) return *desk;
  }
  names_.remember(operation, Kind::claim, name);
  desks_.push_back(std::make_unique<ClaimDesk>(size(), operation));
  return *desks_.back();
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
