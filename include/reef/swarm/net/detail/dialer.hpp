#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <reef/swarm/net/detail/loop.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The addresses that an endpoint keeps connected: connects, and again after a failure or a loss, with growing waits.
class Dialer {
public:
  struct Events {
    std::function<bool(const std::string& peer)> is_connected{};
    std::function<void(std::unique_ptr<Socket>, const std::string& address, const std::string& expected)> on_socket{};
    std::function<void(const std::string& address, const std::string& why)> on_failed{};
  };

  Dialer(Loop& loop, EndpointTimes times, SocketOptions options, std::uint64_t seed, Events events)
      : loop_(loop), times_(times), options_(options), jitter_(seed), events_(std::move(events)) {}

  /// Keeps an address connected. `expected`: the peer that must answer, or empty.
  void add(const std::string& address, const std::string& expected);
  void forget(const std::string& address);
  void forget_all();

  /// Notes which peer answers at an address.
  void answered(const std::string& address, const std::string& peer);

  /// Notes that a connection with `peer`, or with nobody known, has ended: that to `address`, or if empty, one that the
  /// other side opened. `lived`: it was of use, and so waits begin anew.
  void ended(const std::string& address, const std::string& peer, bool lived);

private:
  struct Target {
    std::string expected{};
    std::string peer{};  ///< who answered there last, or is expected
    std::chrono::milliseconds wait{0};
    std::uint64_t timer = 0;
    std::unique_ptr<Connecting> connecting{};
    bool linked = false;
  };

  void dial(const std::string& address);
  void dialled(const std::string& address, std::unique_ptr<Socket> socket, const std::string& why);
  void retry(const std::string& address, Target& target);

  Loop& loop_;
  const EndpointTimes times_;
  const SocketOptions options_;
  std::uint64_t jitter_;
  Events events_;
  std::map<std::string, Target> targets_{};
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/detail/dialer.ipp>
#endif
