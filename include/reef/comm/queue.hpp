#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/task.hpp>
#include <reef/trace/sink.hpp>

namespace reef::inline v0::comm {

/// Tasks in order: one starts when the one before it is complete. Made by Progress::queue.
///
/// Queues run side by side. Collectives meet by the queue's name: all ranks submit the same
/// collectives in the same order to the queue of that name. Point-to-point tasks meet by their own
/// name, whatever the queue.
class Queue {
public:
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

private:
  friend class Progress;

  Queue(std::string name, int tag, trace::Track* track)
      : name_(std::move(name)), tag_(tag), track_(track) {}

  std::string name_;
  int tag_;
  trace::Track* track_;
  // Guarded by the Progress object's lock.
  Task* head_ = nullptr;
  Task* tail_ = nullptr;
  // Progress thread only.
  std::uint32_t collectives_ = 0;
  detail::WindowChannel* window_ = nullptr;
  std::vector<std::byte> staging_;
};

}  // namespace reef::inline v0::comm
