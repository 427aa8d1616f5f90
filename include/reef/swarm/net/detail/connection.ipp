#pragma once

#include <algorithm>
#include <limits>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/io/json_string.hpp>
#include <reef/swarm/net/detail/connection.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE std::string why_json(std::string_view why) {
  // A character becomes at most six in JSON.
  return concat("{\"why\": ", io::json_string(why.substr(0, 600)), "}");
}

REEF_INLINE Sent SendQueue::add(Frame frame, const EndpointLimits& limits, std::uint32_t total) {
  const Bytes size = frame.size();
  if (frame.kind != FrameKind::bulk) {
    if (size > max_payload(frame.kind)) return Sent::refused;
    if (frames_ >= limits.frames || bytes_ + size > limits.queued) return Sent::full;
    control_.emplace_back(std::move(frame), total);
  } else {
    const auto found = streams_.find(frame.head.stream);
    const bool known = found != streams_.end();
    if (size == 0 || size > receiver_.message || (!known && streams_.size() >= receiver_.streams)) return Sent::refused;
    if (frames_ >= limits.frames || bytes_ + size > limits.queued) return Sent::full;
    Stream& stream = known ? found->second : streams_[frame.head.stream];
    if (!known) stream.credit = receiver_.credit;
    const SharedBytes lent = frame.lent ? std::exchange(frame.bytes, nullptr) : nullptr;
    stream.frames.push_back({std::move(frame), size, lent});
  }
  ++frames_;
  bytes_ += size;
  return Sent::queued;
}

REEF_INLINE bool SendQueue::grant(std::uint32_t stream, Bytes bytes) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || bytes > receiver_.credit - found->second.credit) return false;
  found->second.credit += bytes;
  return true;
}

REEF_INLINE void SendQueue::fill(std::vector<std::byte>& out) {
  while (!control_.empty() && out.size() < slice_bytes) {
    const auto& [frame, total] = control_.front();
    append_frame(out, frame, sequence_++, total);
    bytes_ -= frame.size();
    --frames_;
    control_.pop_front();
  }
  if (out.size() < slice_bytes) add_slice(out);
}

REEF_INLINE bool SendQueue::begin(Stream& stream) {
  while (!stream.frames.empty()) {
    Queued& first = stream.frames.front();
    if (first.frame.lent && first.frame.bytes == nullptr) first.frame.bytes = first.lent.lock();
    if (first.frame.bytes != nullptr) return true;
    bytes_ -= first.size;
    --frames_;
    stream.frames.pop_front();
  }
  return false;
}

// Appends one slice of the next stream after the last one that has both a message and credit.
REEF_INLINE bool SendQueue::add_slice(std::vector<std::byte>& out) {
  auto next = streams_.upper_bound(last_stream_);
  for (std::size_t tried = 0; tried < streams_.size(); ++tried, ++next) {
    if (next == streams_.end()) next = streams_.begin();
    auto& [number, stream] = *next;
    if (!begin(stream)) continue;
    Frame& frame = stream.frames.front().frame;
    if (stream.credit < (std::min)(slice_bytes, frame.size() - stream.offset)) {
      if (frame.lent && stream.offset == 0) frame.bytes = nullptr;  // the sender may go on to drop them
      continue;
    }
    const Bytes bytes = append_slice(out, frame, sequence_++, stream.offset);
    stream.offset += bytes;
    stream.credit -= bytes;
    bytes_ -= bytes;
    last_stream_ = number;
    if (stream.offset == frame.size()) {
      stream.frames.pop_front();
      stream.offset = 0;
      --frames_;
    }
    return true;
  }
  return false;
}

REEF_INLINE std::vector<Frame> SendQueue::take() {
  std::vector<Frame> frames;
  for (auto& [frame, total] : control_) {  // those of the connection itself stay behind
    if (frame.kind >= FrameKind::beat) frames.push_back(std::move(frame));
  }
  for (auto& [number, stream] : streams_) {
    while (begin(stream)) {
      frames.push_back(std::move(stream.frames.front().frame));
      stream.frames.pop_front();
    }
    stream.frames.clear();
    stream.offset = 0;
  }
  control_.clear();
  frames_ = 0;
  bytes_ = 0;
  return frames;
}

REEF_INLINE Connection::Connection(Loop& loop, std::unique_ptr<Socket> socket, TlsContext* tls, bool opened_here,
                                   EndpointLimits limits, EndpointTimes times)
    : loop_(loop),
      socket_(std::move(socket)),
      tls_(tls == nullptr ? nullptr : std::make_unique<TlsSession>(*tls, opened_here)),
      opened_here_(opened_here),
      limits_(limits),
      times_(times),
      decoder_(FrameLimits{limits.message, limits.streams}) {}

REEF_INLINE void Connection::timer(std::chrono::nanoseconds wait, void (Connection::*function)()) {
  loop_.after(wait, [weak = weak_from_this(), function] {
    const auto self = weak.lock();
    if (self != nullptr && !self->ended_) (*self.*function)();
  });
}

REEF_INLINE void Connection::start(Events events) {
  events_ = std::move(events);
  socket_->on_bytes = [this](std::span<const std::byte> wire) { received(wire); };
  socket_->on_written = [this] {
    socket_busy_ = false;
    if (std::exchange(taken_when_written_, false)) writing_ = false;
    transmit_due();
    pump();
  };
  socket_->on_end = [this](const std::string& why) {
    end(refusing_ || finishing_ ? why_ : refused_.empty() ? why : concat("the other side refused: ", refused_));
  };
  socket_->start();
  if (tls_ == nullptr) {
    open_ = true;
    events_.on_open();
  } else {
    received({});
  }
}

REEF_INLINE void Connection::received(std::span<const std::byte> wire) {
  received_bytes_ += wire.size();
  if (refusing_) {
    discarded_ += wire.size();
    if (discarded_ > 1_MiB) end(why_);
    return;
  }
  if (tls_ == nullptr) return decode(wire);
  const bool was_open = open_;
  const bool good = tls_->receive(wire, reply_, [this](std::span<const std::byte> plain) {
    if (!std::exchange(open_, true)) events_.on_open();
    if (!ended_ && !refusing_) decode(plain);
  });
  if (ended_) return;
  if (!good) {
    // The alert goes out, and nothing is taken any more.
    refusing_ = true;
    if (!finishing_) why_ = tls_->error().empty() ? "the other side ended TLS" : tls_->error();
    queue_.take();
    said_goodbye_ = true;
    farewell(std::string(why_));
    events_.on_refuse(why_);
    return pump();
  }
  if (!was_open && tls_->is_open() && !std::exchange(open_, true)) events_.on_open();
  pump();
}

REEF_INLINE void Connection::decode(std::span<const std::byte> plain) {
  while (!plain.empty() && !ended_ && !refusing_) {
    const std::uint32_t before = decoder_.frames();
    plain = plain.subspan(decoder_.read(plain));
    if (decoder_.fault() != FrameFault::none) {
      return refuse(concat("malformed, ", name_of(decoder_.fault()), ": ", decoder_.why()));
    }
    if (decoder_.frames() != before) note_slice(decoder_.header());
    if (decoder_.has_frame() && !refusing_) deliver(decoder_.take());
  }
}

REEF_INLINE void Connection::note_slice(const FrameHeader& header) {
  if (header.kind != FrameKind::bulk) return;
  const auto found = incoming_.find(header.head.stream);
  if (found == incoming_.end() && incoming_.size() >= limits_.streams) {
    return refuse(concat("sends more than ", limits_.streams, " streams"));
  }
  Incoming& stream = incoming_[header.head.stream];
  stream.held += header.bytes;
  if (stream.held + stream.returned > limits_.credit) {
    refuse(concat("sends more of stream ", header.head.stream, " than its credit of ", limits_.credit, " bytes"));
  }
}

REEF_INLINE void Connection::deliver(Frame frame) {
  if (frame.kind == FrameKind::credit) {
    const FrameHeader header = decoder_.header();
    if (!queue_.grant(header.head.stream, header.total)) {
      refuse(concat("grants ", header.total, " bytes of stream ", header.head.stream, ", which were not sent"));
    }
    return pump();
  }
  const std::uint32_t stream = frame.head.stream;
  const Bytes size = frame.size();
  if (frame.kind == FrameKind::bulk) delivering_ = {stream, size};
  try {
    if (frame.kind == FrameKind::goodbye || frame.kind == FrameKind::refuse) {
      const io::Json json = io::parse_json(frame.text, "the other side's reason");
      const std::string why = in_quotes(io::value_or<std::string>(json, "why", ""), 600);
      if (frame.kind == FrameKind::goodbye) return finish(concat("the other side said goodbye: ", why));
      refused_ = why;
    }
    events_.on_frame(std::move(frame));
  } catch (const DecodeError& error) {
    delivering_.reset();
    return refuse(concat("malformed: ", error.what()));
  }
  if (delivering_) release(stream, size);
  delivering_.reset();
}

REEF_INLINE std::shared_ptr<void> Connection::hold() {
  if (!delivering_) return nullptr;
  const auto [stream, bytes] = *std::exchange(delivering_, std::nullopt);
  // The loop may be gone when the last copy goes, and a connection must not be destroyed on another thread.
  return {this, [weak = weak_from_this(), post = loop_.poster(), stream = stream, bytes = bytes](void*) {
            post([weak, stream, bytes] {
              if (const auto self = weak.lock()) self->release(stream, bytes);
            });
          }};
}

REEF_INLINE void Connection::release(std::uint32_t number, Bytes bytes) {
  if (ended_ || refusing_) return;
  Incoming& stream = incoming_[number];
  stream.held -= bytes;
  stream.returned += bytes;
  // What waits to be returned is less than what a message may lack.
  if (stream.returned < limits_.credit / 4) return;
  queue_.add(Frame{FrameKind::credit, {.stream = number}, {}, {}},
             {.queued = (std::numeric_limits<Bytes>::max)(), .frames = (std::numeric_limits<std::size_t>::max)()},
             static_cast<std::uint32_t>(std::exchange(stream.returned, 0)));
  pump();
}

REEF_INLINE Sent Connection::send(Frame frame) {
  if (is_ending()) return Sent::absent;
  const Sent sent = queue_.add(std::move(frame), limits_);
  if (sent == Sent::queued) pump();
  return sent;
}

REEF_INLINE void Connection::finish(const std::string& why) {
  if (is_ending()) return;
  finishing_ = true;
  farewell(why);
  pump();
}

REEF_INLINE void Connection::refuse(const std::string& why) {
  if (ended_ || refusing_) return;
  refusing_ = true;
  queue_.take();
  if (open_) {
    queue_.add(Frame::control(FrameKind::refuse, why_json(why)), limits_);
    said_goodbye_ = true;
  }
  farewell(why);
  pump();
  events_.on_refuse(why);
}

// Begins the wait for the other side's end.
REEF_INLINE void Connection::farewell(const std::string& why) {
  why_ = why;
  loop_.after(times_.farewell, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->end(self->why_);
  });
}

REEF_INLINE void Connection::end(const std::string& why) {
  if (std::exchange(ended_, true)) return;
  socket_->close();
  queue_.take();
  on_its_way_.clear();
  const auto on_end = std::exchange(events_.on_end, nullptr);
  on_end(why);
}

REEF_INLINE void Connection::pump() {
  if (ended_ || writing_) return;
  plain_.clear();
  if (open_) {
    queue_.fill(plain_);
    if (plain_.empty() && finishing_ && !refusing_ && queue_.is_empty() && !std::exchange(said_goodbye_, true)) {
      append_frame(plain_, Frame::control(FrameKind::goodbye, why_json(why_)), queue_.take_number());
    }
  }
  if (plain_.empty() && reply_.empty()) {
    const bool done = refusing_ || (finishing_ && said_goodbye_);
    if (done && on_its_way_.empty() && !socket_busy_ && !std::exchange(shut_, true)) socket_->end_writing();
    return;
  }
  std::vector<std::byte> wire = socket_busy_ ? std::vector<std::byte>() : socket_->spare();
  wire.assign(reply_.begin(), reply_.end());
  reply_.clear();
  if (tls_ == nullptr) {
    std::swap(wire, plain_);
  } else if (!plain_.empty()) {
    tls_->send(plain_, wire);
  }
  sent_bytes_ += wire.size();
  writing_ = true;
  transmit(std::move(wire));
  if (!std::exchange(watching_, true)) {
    watched_ = writes_;
    timer(times_.stall, &Connection::watch_stall);
  }
}

REEF_INLINE void Connection::watch_stall() {
  watching_ = false;
  if (!socket_busy_) return;
  if (writes_ == watched_) {
    return end(concat("stalled: it has taken no byte for ", times_.stall.count(), " ms"));
  }
  watching_ = true;
  watched_ = writes_;
  timer(times_.stall, &Connection::watch_stall);
}

REEF_INLINE void Connection::transmit(std::vector<std::byte>&& wire) {
  if (!shape_.is_shaped() && on_its_way_.empty()) {
    taken_when_written_ = true;
    return write(std::move(wire));
  }
  // A timer that is late by less than this costs the link no bandwidth.
  constexpr std::chrono::milliseconds slack(5);
  const auto now = Clock::now();
  const auto nanoseconds = [](double seconds) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  };
  free_ = (std::max)(now - slack, free_);
  if (shape_.rate > 0) free_ += nanoseconds(static_cast<double>(wire.size()) / shape_.rate);
  const auto due = (std::max)(now, free_) + nanoseconds(shape_.latency);
  on_its_way_.emplace_back(due, std::move(wire));
  loop_.after(std::max(free_ - now, Clock::duration{}), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->writing_ = false;
    self->pump();
  });
  timer(due - now, &Connection::transmit_due);
}

REEF_INLINE void Connection::transmit_due() {
  if (socket_busy_ || on_its_way_.empty()) return;
  const auto wait = on_its_way_.front().first - Clock::now();
  if (wait.count() > 0) return timer(wait, &Connection::transmit_due);
  std::vector<std::byte> wire = std::move(on_its_way_.front().second);
  on_its_way_.pop_front();
  write(std::move(wire));
}

REEF_INLINE void Connection::write(std::vector<std::byte>&& wire) {
  socket_busy_ = true;
  ++writes_;
  socket_->write(std::move(wire));
}

REEF_INLINE std::optional<Identity> Connection::identity() const {
  if (tls_ == nullptr) return std::nullopt;
  return tls_->identity();
}

REEF_INLINE std::string Connection::serial() const { return tls_ == nullptr ? std::string() : tls_->serial(); }

REEF_INLINE PeerTraffic Connection::traffic() const {
  return {sent_bytes_, received_bytes_, queue_.bytes(), queue_.sent(), decoder_.frames()};
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
