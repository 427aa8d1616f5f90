#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/net/endpoint_options.hpp>
#include <reef/swarm/net/frame.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// A peer at the other end of an accepted connection.
struct RemotePeer {
  std::string name{};
  std::string role{};             ///< role of the peer: "peer", "keeper" (log server) or "client"
  /// Number drawn when the peer's process started, larger in later processes.
  std::uint64_t incarnation = 0;
  std::string address{};          ///< "ADDRESS:PORT" of the other end of the connection
  /// The JSON text that the peer sent with its first message (its EndpointOptions::greeting).
  std::string greeting = "{}";
};

/// The callbacks of an Endpoint, called one at a time, on the thread of its event loop; empty ones are not called.
///
/// | on_frame     | a message has come. A DecodeError that it throws closes that peer, named; any other        |
/// |              | exception goes to on_error                                                                 |
/// | on_connected | a peer has said hello, or is there as a later incarnation, after on_lost of the one before |
/// | on_lost      | a peer's last connection has ended, and why; messages that were queued for it are gone     |
/// | on_greeting  | looks at a peer before on_connected; returns why it is refused, or an empty text           |
/// | on_refused   | a connection ended before its hello was accepted: the address, and why                     |
/// | on_error     | a function of the user has thrown: what it says. Without it, the program ends              |
struct EndpointEvents {
  std::function<void(const RemotePeer&, Frame)> on_frame{};
  std::function<void(const RemotePeer&)> on_connected{};
  std::function<void(const RemotePeer&, const std::string& why)> on_lost{};
  std::function<std::string(const RemotePeer&)> on_greeting{};
  std::function<void(const std::string& address, const std::string& why)> on_refused{};
  std::function<void(const std::string& what)> on_error{};
};

/// The result of Endpoint::send: whether a frame was queued.
///
/// | queued  | the frame waits to be sent, or is lost with the connection: on_lost then says so     |
/// | absent  | there is no connection with a peer of this name                                      |
/// | full    | EndpointLimits::queued or ::frames is reached: send again later, or give the peer up |
/// | refused | the frame is longer than its kind, or than the receiver allows                       |
enum class Sent : std::uint8_t { queued, absent, full, refused };

/// Counts of bytes and frames that an Endpoint has sent to and received from a peer over its present connection,
/// headers included.
struct PeerTraffic {
  Bytes sent = 0;
  Bytes received = 0;
  Bytes queued = 0;               ///< bytes that wait to be sent
  std::uint64_t frames_sent = 0;  ///< frames sent; slices of a large message count as frames
  std::uint64_t frames_received = 0;
};

/// Counts of bytes that an Endpoint has sent and received since it began, over all of its connections, what TLS adds
/// included.
struct EndpointTraffic {
  Bytes sent = 0;
  Bytes received = 0;
};

/// The network connections of one peer: listens, connects, and sends and receives frames, in an event loop with a
/// thread of its own.
///
/// | identity   | a peer is (name, incarnation). With TLS the name is that of the certificate's URI              |
/// | one each   | of two connections of the same pair, that which the lower name opened stays; of two that one   |
/// |            | side opened, the later. A connection of an older incarnation than one already seen is refused  |
/// | order      | control in the order of send, before bulk, which goes in slices of 64 KiB between which        |
/// |            | control passes; bulk of one stream in order, streams in turn. While a second connection of a   |
/// |            | pair takes the place of the first, messages of the two may pass each other                     |
/// | delivery   | at most once: what is queued or on its way when a connection is lost, is lost                  |
/// | credit     | of each stream a peer sends at most EndpointLimits::credit bytes that on_frame has not yet     |
/// |            | returned from, and that nobody holds (`hold`)                                                  |
/// | thread     | `start`, `post`, `after`, `cancel`, `connect`, `forget`, `all_traffic` may be called on any    |
/// |            | thread; all else, on the loop's thread alone, that is in callbacks, timers and posted functions |
/// | errors     | OptionError of the constructor: settings, files of keys; Error: an address that cannot be      |
/// |            | listened on. What peers send is never thrown, but closes them, named                           |
///
/// \code
/// swarm::EndpointOptions options;
/// options.job = "example";
/// options.name = "a";
/// options.listen = "127.0.0.1:0";
/// options.plain_loopback = true;
/// swarm::EndpointEvents events;
/// events.on_frame = [](const swarm::RemotePeer&, swarm::Frame) {};
/// swarm::Endpoint endpoint(options, events);
/// endpoint.start();
/// endpoint.connect("127.0.0.1:7001");
/// endpoint.post([&] { endpoint.send("b", swarm::Frame::control(swarm::FrameKind::beat, "{}")); });
/// \endcode
class Endpoint {
public:
  /// The number of a timer of the event loop; 0 is none.
  using Timer = std::uint64_t;

  /// Listens, if options.listen says so, and starts the event loop's thread. Peers that connect wait until `start`.
  Endpoint(EndpointOptions options, EndpointEvents events);

  /// Says goodbye to all peers, waits for that at most EndpointTimes::farewell, and ends the event loop's thread. Calls
  /// no callback, timer or posted function from the goodbyes on. Not to be called on that thread.
  ~Endpoint();

  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Begins to accept connections. Separate from the constructor, so that callbacks can use the constructed object.
  void start();

  /// Returns the address that the endpoint listens on, with its port; empty if none.
  [[nodiscard]] std::string address() const;

  [[nodiscard]] std::uint64_t incarnation() const;

  /// Runs `function` on the event loop's thread, after all functions posted before.
  void post(std::function<void()> function);

  /// Runs `function` on the event loop's thread after `wait`, unless the timer is cancelled.
  Timer after(std::chrono::nanoseconds wait, std::function<void()> function);

  /// Cancels a timer. If called on the event loop's thread, its function is not called afterwards; elsewhere it may be
  /// running.
  void cancel(Timer timer);

  /// Keeps a connection with the peer at "ADDRESS:PORT": connects, and after a failure or loss connects again, with
  /// growing waits, until `forget`. `name`: the peer that must answer there; empty: any.
  void connect(std::string address, std::string name = {});

  /// Ends the attempts to connect to this address. A connection that exists stays.
  void forget(const std::string& address);

  /// Queues a frame to be sent to the peer of this name.
  Sent send(std::string_view peer, Frame frame);

  /// Keeps the flow-control credit of the bulk message that on_frame is called with, until the last copy of the
  /// returned handle is gone, on any thread: so that the sender waits for slow readers. Null outside of on_frame, and
  /// for control messages.
  [[nodiscard]] std::shared_ptr<void> hold();

  /// Closes the connection with a peer in order, telling it why; on_lost follows. Where `connect` is in force for its
  /// address, the connection is made again.
  void disconnect(std::string_view peer, const std::string& why);

  /// Returns the connected peers, in the order of their names.
  [[nodiscard]] std::vector<RemotePeer> peers() const;

  /// Returns counts of what was sent to and received from a peer; all 0 if the peer is not connected.
  [[nodiscard]] PeerTraffic traffic(std::string_view peer) const;

  /// Returns counts of what was sent and received over all connections so far, those that have ended included.
  [[nodiscard]] EndpointTraffic all_traffic() const;

  /// Refuses certificates with these serial numbers from now on, and closes connections that use one.
  void set_revoked(std::vector<std::string> serials);

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/endpoint.ipp>
#endif
