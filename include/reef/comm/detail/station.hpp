#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <reef/comm/detail/receiver.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/meter.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

class CallbackThread;
class Naps;
class WindowChannel;
class Wire;

/// What a running task yet awaits, as far as it can tell.
struct Awaited {
  const Receiver* receiver = nullptr;  ///< whose messages
  std::uint64_t messages = 0;          ///< sent or received, not yet delivered
};

/// What a running task sees of the rank that it runs on. Progress thread only.
struct Station {
  Wire& wire;
  LiveMeter& meter;
  Cost& sent;                    ///< the task's
  std::span<const int> members;  ///< the ranks that take part, by position
  int position;                  ///< of this rank
  Bytes piece_bytes;
  std::uint64_t
      channel;  ///< whose messages these are (Wire); collectives use channel and channel + 1
  std::uint32_t sequence;
  WindowChannel* window;            ///< null: messages
  std::vector<std::byte>* staging;  ///< the queue's, grown once
  CallbackThread* callback_thread;
  const std::shared_ptr<Naps>& naps;  ///< of the progress thread

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  [[nodiscard]] int rank_of(int at) const { return members[static_cast<std::size_t>(at)]; }
  /// Counts what is given to others in shared memory.
  void count_window(Kind kind, Bytes bytes) const {
    meter.window(kind, bytes);
    sent.window_bytes += bytes;
  }
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
