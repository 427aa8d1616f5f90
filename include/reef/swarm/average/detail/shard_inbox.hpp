#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <reef/swarm/core/membership.hpp>
#include <reef/swarm/net/frame.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// What fetch_shards hears of, from threads of its endpoint and of the log, in the order in which it comes.
class ShardInbox {
public:
  struct Connected {
    std::string name{};
  };
  struct Lost {
    std::string name{};
    std::string why{};
  };
  struct Came {
    std::string name{};
    Frame frame{};
    std::shared_ptr<void> credit{};  ///< of the sender, until the frame is looked at
  };
  struct Found {
    std::vector<PeerPresence> peers{};
  };
  using Event = std::variant<Connected, Lost, Came, Found>;

  void put(Event event) {
    {
      const std::scoped_lock lock(mutex_);
      events_.push_back(std::move(event));
    }
    changed_.notify_all();
  }

  /// Returns all that has come, and waits for something if there is nothing, for 0.1 s at most.
  [[nodiscard]] std::vector<Event> take() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return !events_.empty(); });
    return std::exchange(events_, {});
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_{};  // under mutex_
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
