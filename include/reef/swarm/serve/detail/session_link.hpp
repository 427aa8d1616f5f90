#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/session_message.hpp>
#include <reef/swarm/log/detail/announced_presence.hpp>
#include <reef/swarm/log/detail/loop_gate.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/net/endpoint.hpp>
#include <reef/swarm/serve/served_span.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

/// What a SessionLink hears of. All are called on the loop of its endpoint.
///
/// | message | a message of a session, from a process by to_text(PeerId)                                |
/// | lost    | nothing can be sent to this process: its connection is lost, or none is made in time      |
/// | servers | those that are in the store                                                              |
/// | pinged  | a round-trip time to a process that is to be measured; infinite where no answer comes    |
/// | tick    | some times a second                                                                      |
/// | error   | a function of these has thrown                                                           |
struct SessionLinkEvents {
  std::function<void(const std::string& from, const SessionMessage&)> message{};
  std::function<void(const std::string& peer)> lost{};
  std::function<void(const std::vector<ServedSpan>&)> servers{};
  std::function<void(const std::string& peer, Seconds seconds)> pinged{};
  std::function<void()> tick{};
  std::function<void(const std::string& what)> error{};
};

/// Messages of sessions between processes: an endpoint that connects to servers of the store when they are sent to.
class SessionLink {
public:
  SessionLink(EndpointOptions net, Presence& presence, SessionLinkEvents events);
  ~SessionLink();
  SessionLink(const SessionLink&) = delete;
  SessionLink& operator=(const SessionLink&) = delete;

  /// Begins to call functions.
  void start();
  /// Runs a function on the loop.
  void post(std::function<void()> function);
  /// Sends a message, once there is a connection. `to`: a process by to_text(PeerId).
  void send(const std::string& to, const SessionMessage& message);

  [[nodiscard]] const PeerId& id() const& { return id_; }
  void id() const&& = delete;
  [[nodiscard]] std::string address() const;
  /// Writes a server's line into the store, and keeps it there; withdraw() takes it out. On the loop.
  void announce(const ServedSpan& span) { store_->announce(to_text(span.id), text_of(span)); }
  /// Changes the line of a server that is announced, within a second. On the loop.
  void change(const ServedSpan& span) { store_->change(text_of(span)); }
  void withdraw() { store_->withdraw(); }
  /// Measures the round-trip times to these processes from now on, and no others', each every 2 s. On the loop.
  void ping(const std::set<std::string>& peers);
  /// Returns the seconds since the link was made.
  [[nodiscard]] Seconds now() const;

  /// The most bytes of a message.
  static constexpr Bytes most_bytes = 64_MiB;

private:
  struct Waiting {
    Seconds since = 0;
    std::deque<SharedBytes> messages{};
  };

  /// The measurement of a round-trip time.
  struct Ping {
    Seconds sent = -1e9;
    std::uint64_t number = 0;
    bool waits = false;  // for the answer
  };

  void tick();
  void ping_all();
  void answered(const std::string& from, std::uint64_t number);
  void take(const RemotePeer& from, const Frame& frame);
  void give(const std::string& name, const SharedBytes& message);
  /// Sends a short text to a connected process, before all bulk; what cannot be sent is lost.
  void tell(const std::string& name, const std::string& text);
  [[nodiscard]] bool is_connected(const std::string& to) const;
  void dial(const std::string& to);
  void found(const std::vector<PresentKey>& keys);

  SessionLinkEvents events_;
  PeerId id_;
  std::shared_ptr<LoopGate> gate_;
  std::unique_ptr<AnnouncedPresence> store_;
  std::map<std::string, std::uint64_t> connected_{};  // incarnations by name
  std::map<std::string, ServedSpan> servers_{};       // by to_text(id)
  std::map<std::string, std::string> dialed_{};       // names by address
  std::map<std::string, Waiting> waiting_{};          // by to_text(id)
  std::map<std::string, Ping> pings_{};               // by to_text(id)
  std::uint64_t pinged_ = 0;                          // the last number of a ping
  std::unique_ptr<Endpoint> endpoint_;                // the first to go: until then its loop uses all of the above
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/serve/detail/session_link.ipp>
#endif
