#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/swarm/net/detail/loop.hpp>
#include <reef/swarm/net/detail/tls.hpp>
#include <reef/swarm/net/endpoint.hpp>
#include <reef/swarm/net/endpoint_options.hpp>
#include <reef/swarm/net/frame.hpp>
#include <reef/swarm/net/shaped_link.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The bounds that the other side of a connection has told, of what it receives.
struct ReceiverLimits {
  Bytes message = 0;
  Bytes credit = 0;
  std::size_t streams = 0;
};

/// The frames that wait to be sent over a connection: control in order, before bulk, of which streams with credit take
/// turns, slice by slice.
class SendQueue {
public:
  void set_receiver(ReceiverLimits receiver) { receiver_ = receiver; }

  /// Queues a frame. `total`: of credit.
  Sent add(Frame frame, const EndpointLimits& limits, std::uint32_t total = 0);

  /// Adds to the credit of a stream. Returns false if there is no such stream, or the credit is above what the receiver
  /// ever has.
  bool grant(std::uint32_t stream, Bytes bytes);

  /// Appends what is to be sent next, at most about a slice of control and one of bulk, to `out`.
  void fill(std::vector<std::byte>& out);

  [[nodiscard]] bool is_empty() const { return frames_ == 0; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] std::uint32_t sent() const { return sequence_; }

  /// Returns the number of a frame that is sent apart from the queue.
  std::uint32_t take_number() { return sequence_++; }

  /// Returns all frames of users that are not wholly sent, control first, and forgets them.
  std::vector<Frame> take();

private:
  /// A bulk frame that waits. Bytes that are lent are taken hold of when its first slice is sent.
  struct Queued {
    Frame frame{};
    Bytes size = 0;
    std::weak_ptr<const std::vector<std::byte>> lent{};
  };
  struct Stream {
    std::deque<Queued> frames{};
    Bytes offset = 0;  ///< of the first frame: the bytes that are sent
    Bytes credit = 0;
  };

  bool add_slice(std::vector<std::byte>& out);
  /// Takes hold of the bytes of the first frame that still has them, and forgets those before it. Returns false if
  /// there is none.
  bool begin(Stream& stream);

  ReceiverLimits receiver_{};
  std::deque<std::pair<Frame, std::uint32_t>> control_{};
  std::map<std::uint32_t, Stream> streams_{};
  std::uint32_t last_stream_ = 0;
  std::size_t frames_ = 0;
  Bytes bytes_ = 0;
  std::uint32_t sequence_ = 0;
};

/// One TCP connection, with TLS or without: frames in, frames out, and its end. Used on the loop's thread alone, and
/// never destroyed inside of its own functions.
class Connection : public std::enable_shared_from_this<Connection> {
public:
  /// The functions that a connection calls. `on_end`: once, and nothing is called afterwards. `on_refuse`: the other
  /// side is refused, and `on_end` follows when it has ended too, or is late.
  struct Events {
    std::function<void()> on_open{};          ///< TLS is complete; without TLS at once
    std::function<void(Frame)> on_frame{};    ///< all kinds but goodbye and credit
    std::function<void(const std::string& why)> on_refuse{};
    std::function<void(const std::string& why)> on_end{};
  };

  Connection(Loop& loop, std::unique_ptr<Socket> socket, TlsContext* tls, bool opened_here, EndpointLimits limits,
             EndpointTimes times);

  void start(Events events);

  /// Says what the other side receives; before, control alone is sent.
  void set_receiver(ReceiverLimits receiver) { queue_.set_receiver(receiver); }
  void set_shape(ShapedLink shape) { shape_ = shape; }

  Sent send(Frame frame);

  /// Returns the frames that are not wholly sent, and forgets them.
  std::vector<Frame> take_queue() { return queue_.take(); }

  /// Sends what is queued and a goodbye, and ends when the other side has done so, or after the farewell's time. What
  /// comes until then is delivered.
  void finish(const std::string& why);

  /// Tells the other side why it is refused, and ends soon; nothing of it is delivered any more.
  void refuse(const std::string& why);

  /// Ends at once.
  void end(const std::string& why);

  /// Holds the credit of the bulk message that on_frame is called with.
  std::shared_ptr<void> hold();

  [[nodiscard]] bool opened_here() const { return opened_here_; }
  [[nodiscard]] bool is_ending() const { return ended_ || finishing_ || refusing_; }
  [[nodiscard]] std::string remote() const { return socket_->remote(); }
  [[nodiscard]] std::string remote_host() const { return socket_->remote_host(); }
  [[nodiscard]] std::optional<Identity> identity() const;
  [[nodiscard]] std::string serial() const;
  [[nodiscard]] PeerTraffic traffic() const;

private:
  using Clock = std::chrono::steady_clock;

  struct Incoming {
    Bytes held = 0;      ///< received, and not released
    Bytes returned = 0;  ///< released, and not yet granted again
  };

  void received(std::span<const std::byte> wire);
  void decode(std::span<const std::byte> plain);
  void deliver(Frame frame);
  void note_slice(const FrameHeader& header);
  void release(std::uint32_t stream, Bytes bytes);
  void farewell(const std::string& why);
  void pump();
  void transmit(std::vector<std::byte>&& wire);
  void transmit_due();
  void write(std::vector<std::byte>&& wire);
  void watch_stall();
  void timer(std::chrono::nanoseconds wait, void (Connection::*function)());

  Loop& loop_;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<TlsSession> tls_;
  const bool opened_here_;
  const EndpointLimits limits_;
  const EndpointTimes times_;
  Events events_{};

  FrameDecoder decoder_;
  std::map<std::uint32_t, Incoming> incoming_{};
  std::optional<std::pair<std::uint32_t, Bytes>> delivering_{};  ///< stream and bytes, while nobody holds them
  std::string refused_{};  ///< the last text of a refuse of the other side

  SendQueue queue_{};
  std::vector<std::byte> plain_{};  ///< what is sent next, before encryption
  std::vector<std::byte> reply_{};  ///< of TLS: is sent before anything else
  bool open_ = false;
  bool writing_ = false;            ///< nothing more is taken from the queue now
  std::uint64_t writes_ = 0;        ///< buffers that the socket was given
  std::uint64_t watched_ = 0;       ///< the write that the stall's timer looks at
  bool watching_ = false;

  ShapedLink shape_{};
  std::deque<std::pair<Clock::time_point, std::vector<std::byte>>> on_its_way_{};
  bool socket_busy_ = false;
  bool taken_when_written_ = false;  ///< the link is not shaped: more is taken when the socket has taken this
  Clock::time_point free_{};  ///< the time at which the shaped link takes more

  bool finishing_ = false;
  bool refusing_ = false;
  bool said_goodbye_ = false;
  bool shut_ = false;
  bool ended_ = false;
  std::string why_{};  ///< of an end in order
  Bytes discarded_ = 0;
  Bytes sent_bytes_ = 0;
  Bytes received_bytes_ = 0;
};

/// Returns a JSON object {"why": text}, cut so that it fits into a control frame.
std::string why_json(std::string_view why);

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/detail/connection.ipp>
#endif
