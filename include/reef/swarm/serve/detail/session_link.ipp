#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/average/detail/own_options.hpp>
#include <reef/swarm/core/session_wire.hpp>
#include <reef/swarm/serve/detail/session_link.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

inline constexpr std::uint32_t session_stream = 5;

/// What the text of a control frame says: one of these.
struct SessionControl {
  std::optional<std::string> close{};    // a session that ends
  std::optional<std::uint64_t> ping{};   // a number that is to be sent back
  std::optional<std::uint64_t> pong{};   // a number that was sent
};

/// Reads the text of a control frame. Throws DecodeError for a text that says nothing of this.
inline SessionControl session_control_of(const std::string& text) {
  const std::string source = "a control message of a session";
  const io::Json json = io::parse_json(text, source, {.bytes = max_control_bytes, .depth = 2});
  if (json.is_object() && json.contains("ping")) return {{}, io::require<std::uint64_t>(json, "ping", source), {}};
  if (json.is_object() && json.contains("pong")) return {{}, {}, io::require<std::uint64_t>(json, "pong", source)};
  return {io::require<std::string>(json, "close", source), {}, {}};
}

REEF_INLINE SessionLink::SessionLink(EndpointOptions net, Presence& presence, SessionLinkEvents events)
    : events_(std::move(events)) {
  if (net.incarnation == 0) net.incarnation = drawn_incarnation();
  net.limits.message = most_bytes;
  net.limits.credit = 2 * most_bytes;
  net.limits.queued = 4 * most_bytes;
  id_ = {net.name, net.incarnation};
  EndpointEvents on;
  on.on_frame = [this](const RemotePeer& from, Frame frame) { take(from, frame); };
  on.on_connected = [this](const RemotePeer& peer) {
    connected_[peer.name] = peer.incarnation;
    const auto waiting = waiting_.find(to_text(PeerId{peer.name, peer.incarnation}));
    if (waiting == waiting_.end()) return;
    for (const SharedBytes& message : waiting->second.messages) give(peer.name, message);
    waiting_.erase(waiting);
  };
  on.on_lost = [this](const RemotePeer& peer, const std::string& /*why*/) {
    const auto found = connected_.find(peer.name);
    if (found == connected_.end() || found->second != peer.incarnation) return;
    connected_.erase(found);
    events_.lost(to_text(PeerId{peer.name, peer.incarnation}));
  };
  on.on_error = [this](const std::string& what) { events_.error(what); };
  endpoint_ = std::make_unique<Endpoint>(std::move(net), std::move(on));
  gate_ = std::make_shared<LoopGate>(*endpoint_);
  store_ = std::make_unique<AnnouncedPresence>(presence, gate_,
                                               [this](const std::vector<PresentKey>& keys) { found(keys); });
}

REEF_INLINE SessionLink::~SessionLink() { gate_->close(); }

REEF_INLINE void SessionLink::start() {
  endpoint_->start();
  post([this] { tick(); });
}

REEF_INLINE void SessionLink::post(std::function<void()> function) { endpoint_->post(std::move(function)); }

REEF_INLINE std::string SessionLink::address() const { return endpoint_->address(); }

REEF_INLINE Seconds SessionLink::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

REEF_INLINE void SessionLink::tick() {
  constexpr std::chrono::milliseconds pace(50);
  constexpr Seconds to_connect = 2;
  constexpr Seconds look_every = 0.5;
  std::vector<std::string> late;
  for (const auto& [to, waiting] : waiting_) {
    if (now() - waiting.since > to_connect) late.push_back(to);
  }
  for (const std::string& to : late) {
    waiting_.erase(to);
    events_.lost(to);
  }
  store_->tick(now(), look_every);
  ping_all();
  events_.tick();
  endpoint_->after(pace, [this] { tick(); });
}

REEF_INLINE void SessionLink::take(const RemotePeer& from, const Frame& frame) {
  const std::string who = to_text(PeerId{from.name, from.incarnation});
  if (frame.head.stream == session_stream && frame.kind == FrameKind::control) {
    const SessionControl control = session_control_of(frame.text);
    if (control.ping) return tell(from.name, io::Json{{"pong", *control.ping}}.dump());
    if (control.pong) return answered(who, *control.pong);
    return events_.message(who, CloseSession{*control.close});
  }
  if (frame.head.stream != session_stream || frame.kind != FrameKind::bulk || frame.bytes == nullptr) {
    throw DecodeError("reef::swarm: a frame that is no message of a session.\n  fix: a peer of the same version.");
  }
  events_.message(who, session_message_of(*frame.bytes));
}

REEF_INLINE void SessionLink::ping(const std::set<std::string>& peers) {
  std::erase_if(pings_, [&](const auto& one) { return !peers.contains(one.first); });
  for (const std::string& peer : peers) {
    if (peer != to_text(id_)) pings_.try_emplace(peer);
  }
  ping_all();
}

REEF_INLINE void SessionLink::ping_all() {
  constexpr Seconds pace = 2;
  constexpr Seconds patience = 10;
  for (auto& [to, ping] : pings_) {
    const bool is_late = now() - ping.sent >= (ping.waits ? patience : pace);
    if (ping.waits && is_late) events_.pinged(to, std::numeric_limits<Seconds>::infinity());
    if (!is_late) continue;
    ping.waits = false;
    if (!is_connected(to)) {
      dial(to);
      continue;
    }
    ping = {now(), ++pinged_, true};
    tell(to.substr(0, to.rfind('/')), io::Json{{"ping", ping.number}}.dump());
  }
}

REEF_INLINE void SessionLink::answered(const std::string& from, std::uint64_t number) {
  const auto ping = pings_.find(from);
  if (ping == pings_.end() || !ping->second.waits || ping->second.number != number) return;
  ping->second.waits = false;
  events_.pinged(from, now() - ping->second.sent);
}

REEF_INLINE void SessionLink::tell(const std::string& name, const std::string& text) {
  static_cast<void>(endpoint_->send(name, Frame::control(FrameKind::control, text, {.stream = session_stream})));
}

REEF_INLINE bool SessionLink::is_connected(const std::string& to) const {
  const std::string name = to.substr(0, to.rfind('/'));
  const auto found = connected_.find(name);
  return found != connected_.end() && to_text(PeerId{name, found->second}) == to;
}

REEF_INLINE void SessionLink::give(const std::string& name, const SharedBytes& message) {
  // What is not queued is lost, as on a connection that breaks: the client asks again.
  static_cast<void>(endpoint_->send(name, Frame::bulk({.stream = session_stream}, message)));
}

REEF_INLINE void SessionLink::send(const std::string& to, const SessionMessage& message) {
  // A server may have two spans of one chain.
  if (to == to_text(id_)) return post([this, to, message] { events_.message(to, message); });
  const std::string name = to.substr(0, to.rfind('/'));
  if (const auto* const close = std::get_if<CloseSession>(&message)) {
    // Goodbyes are control and would pass it if it were bulk; a session that is not to be reached is closed when idle.
    return tell(name, io::Json{{"close", close->session}}.dump());
  }
  const auto bytes = std::make_shared<const std::vector<std::byte>>(to_bytes(message));
  if (is_connected(to)) return give(name, bytes);
  Waiting& waiting = waiting_.try_emplace(to, Waiting{now(), {}}).first->second;
  constexpr std::size_t most_waiting = 256;
  if (waiting.messages.size() < most_waiting) waiting.messages.push_back(bytes);
  if (!servers_.contains(to)) store_->look_soon();  // it may have come since the store was read
  dial(to);
}

REEF_INLINE void SessionLink::dial(const std::string& to) {
  const auto server = servers_.find(to);
  if (server == servers_.end()) return;
  const std::string& name = server->second.id.name;
  const auto [dialed, is_new] = dialed_.emplace(server->second.address, name);
  if (!is_new && dialed->second == name) return;
  if (!is_new) endpoint_->forget(dialed->first);  // another one was there before
  dialed->second = name;
  endpoint_->connect(dialed->first, name);
}

REEF_INLINE void SessionLink::found(const std::vector<PresentKey>& keys) {
  std::vector<ServedSpan> all;
  for (const PresentKey& key : keys) {
    std::optional<ServedSpan> span = served_span_of(key.value);
    if (span && to_text(span->id) == key.key) all.push_back(std::move(*span));
  }
  servers_.clear();
  std::set<std::string> addresses;
  for (const ServedSpan& span : all) {
    if (span.id == id_) continue;
    servers_.emplace(to_text(span.id), span);
    addresses.insert(span.address);
  }
  std::erase_if(dialed_, [&](const auto& one) {
    if (addresses.contains(one.first) || connected_.contains(one.second)) return false;
    endpoint_->forget(one.first);
    return true;
  });
  for (const auto& [to, waiting] : waiting_) dial(to);
  events_.servers(all);
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
