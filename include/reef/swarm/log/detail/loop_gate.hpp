#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include <reef/swarm/net/endpoint.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The way from threads of a log or a store to the loop of an endpoint. Callbacks that may come late share one, and
/// what comes after its close() is dropped.
class LoopGate {
public:
  explicit LoopGate(Endpoint& endpoint) : endpoint_(&endpoint) {}

  void post(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    if (endpoint_ != nullptr) endpoint_->post(std::move(function));
  }
  /// Posts nothing any more: the endpoint may then be destroyed.
  void close() {
    const std::lock_guard lock(mutex_);
    endpoint_ = nullptr;
  }

private:
  std::mutex mutex_;
  Endpoint* endpoint_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
