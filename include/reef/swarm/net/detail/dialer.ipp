#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/net/detail/dialer.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE void Dialer::add(const std::string& address, const std::string& expected) {
  const auto [found, fresh] = targets_.try_emplace(address);
  if (!fresh) return;
  found->second.expected = found->second.peer = expected;
  found->second.wait = times_.first_retry;
  dial(address);
}

REEF_INLINE void Dialer::forget(const std::string& address) {
  const auto found = targets_.find(address);
  if (found == targets_.end()) return;
  loop_.cancel(found->second.timer);
  targets_.erase(found);
}

REEF_INLINE void Dialer::forget_all() {
  for (const auto& [address, target] : targets_) loop_.cancel(target.timer);
  targets_.clear();
}

REEF_INLINE void Dialer::answered(const std::string& address, const std::string& peer) {
  const auto found = targets_.find(address);
  if (found != targets_.end()) found->second.peer = peer;
}

REEF_INLINE void Dialer::ended(const std::string& address, const std::string& peer, bool lived) {
  for (auto& [at, target] : targets_) {
    const bool own = at == address;
    if (!own && (peer.empty() || target.peer != peer || target.linked)) continue;
    if (own) target.linked = false;
    if (lived) target.wait = times_.first_retry;
    retry(at, target);
  }
}

REEF_INLINE void Dialer::dial(const std::string& address) {
  const auto found = targets_.find(address);
  if (found == targets_.end()) return;
  Target& target = found->second;
  target.timer = 0;
  if (target.linked || target.connecting != nullptr || events_.is_connected(target.peer)) return;
  target.timer = loop_.after(times_.hello, [this, address] { dialled(address, nullptr, "no answer in time"); });
  target.connecting = std::make_unique<Connecting>(
      loop_, address, options_, [this, address](std::unique_ptr<Socket> socket, const std::string& why) {
        dialled(address, std::move(socket), why);
      });
}

REEF_INLINE void Dialer::dialled(const std::string& address, std::unique_ptr<Socket> socket, const std::string& why) {
  const auto found = targets_.find(address);
  if (found == targets_.end()) return;
  Target& target = found->second;
  loop_.post([gone = std::shared_ptr<Connecting>(std::move(target.connecting))] {});  // its function may be what runs
  loop_.cancel(std::exchange(target.timer, 0));
  if (socket != nullptr) {
    target.linked = true;
    return events_.on_socket(std::move(socket), address, std::string(target.expected));
  }
  retry(address, target);
  events_.on_failed(address, concat("cannot connect: ", why));
}

REEF_INLINE void Dialer::retry(const std::string& address, Target& target) {
  if (target.timer != 0 || target.connecting != nullptr || target.linked) return;
  // Waits differ by up to a half, so that two sides do not always meet in the middle.
  jitter_ = jitter_ * 6364136223846793005U + 1442695040888963407U;
  const auto wait = target.wait / 2 + target.wait * static_cast<int>(jitter_ >> 57) / 256;
  target.wait = (std::min)(target.wait * 2, times_.last_retry);
  target.timer = loop_.after(wait, [this, address] { dial(address); });
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
