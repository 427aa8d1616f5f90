#pragma once

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/net/detail/connection.hpp>
#include <reef/swarm/net/detail/dialer.hpp>
#include <reef/swarm/net/detail/hello.hpp>
#include <reef/swarm/net/detail/host_and_port.hpp>
#include <reef/swarm/net/detail/loop.hpp>
#include <reef/swarm/net/detail/tls.hpp>
#include <reef/swarm/net/endpoint.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

// The constructor runs on the user's thread, all else on the loop's.
class Endpoint::Implementation {
  const std::unique_ptr<detail::TlsContext> tls_;
  const EndpointOptions options_;
  EndpointEvents events_;

public:
  detail::Loop loop;  ///< before what has sockets of it; its thread is to be stopped before they go

  Implementation(EndpointOptions options, EndpointEvents events)
      : tls_(options.tls.authority.empty() ? nullptr : std::make_unique<detail::TlsContext>(options.tls)),
        options_(detail::checked(std::move(options), tls_.get())),
        events_(std::move(events)),
        loop(events_.on_error),
        dialer_(loop, options_.times, socket_options(), options_.incarnation, dialer_events()) {
    if (options_.listen.empty()) return;
    listener_ = std::make_unique<detail::Listener>(
        loop, options_.listen, socket_options(),
        [this](std::unique_ptr<detail::Socket> socket) { accept(std::move(socket)); });
  }

  [[nodiscard]] std::string address() const { return listener_ == nullptr ? std::string() : listener_->address(); }
  [[nodiscard]] std::uint64_t incarnation() const { return options_.incarnation; }

  /// Runs a function of the user, unless the endpoint is being closed.
  void run(const std::function<void()>& function) const {
    if (!closing_) function();
  }

  void start() {
    if (listener_ != nullptr) listener_->start();
  }

  void connect(const std::string& address, const std::string& name) {
    if (!closing_) dialer_.add(address, name);
  }

  void forget(const std::string& address) { dialer_.forget(address); }

  Sent send(std::string_view name, Frame frame) {
    require_loop("send");
    const auto found = peers_.find(name);
    if (found == peers_.end() || found->second.current == nullptr) return Sent::absent;
    if (frame.kind < FrameKind::beat) return Sent::refused;
    return found->second.current->connection->send(std::move(frame));
  }

  void disconnect(std::string_view name, const std::string& why) {
    require_loop("disconnect");
    const auto found = peers_.find(name);
    if (found == peers_.end() || found->second.current == nullptr) return;
    found->second.current->muted = true;
    found->second.current->connection->finish(why);
  }

  [[nodiscard]] std::shared_ptr<void> hold() {
    require_loop("hold");
    return delivering_ == nullptr ? nullptr : delivering_->hold();
  }

  [[nodiscard]] std::vector<RemotePeer> peers() const {
    require_loop("peers");
    std::vector<RemotePeer> connected;
    for (const auto& [name, peer] : peers_) {
      if (peer.current != nullptr) connected.push_back(peer.current->peer);
    }
    return connected;
  }

  [[nodiscard]] PeerTraffic traffic(std::string_view name) const {
    require_loop("traffic");
    const auto found = peers_.find(name);
    if (found == peers_.end() || found->second.current == nullptr) return {};
    return found->second.current->connection->traffic();
  }

  void set_revoked(const std::vector<std::string>& serials) {
    require_loop("set_revoked");
    if (tls_ == nullptr) return;
    tls_->set_revoked(serials);
    for (const auto& link : std::vector(links_.begin(), links_.end())) {
      if (tls_->is_revoked(link->connection->serial())) link->connection->end("its certificate is revoked");
    }
  }

  /// Closes all in order, and fulfils `closed` when nothing is left.
  void close(std::shared_ptr<std::promise<void>> closed) {
    closing_ = true;
    closed_ = std::move(closed);
    events_ = {};
    if (listener_ != nullptr) listener_->close();
    dialer_.forget_all();
    for (const auto& link : std::vector(links_.begin(), links_.end())) {
      if (link->established) {
        link->connection->finish("it leaves");
      } else {
        link->connection->end("this side leaves");
      }
    }
    note_closed();
  }

private:
  /// A connection, and what is known of its other side.
  struct Link {
    std::shared_ptr<detail::Connection> connection{};
    std::string target{};       ///< the address that it was opened to by `connect`, or empty
    std::string expected{};     ///< the name that must answer, or empty
    RemotePeer peer{};
    bool accepted = false;      ///< the other side's hello was accepted
    bool welcomed = false;      ///< the other side accepted that of this side
    bool established = false;   ///< both
    bool muted = false;         ///< nothing of it is delivered any more
    bool left = false;          ///< the user was told of its end
    std::chrono::steady_clock::time_point since{};  ///< established
  };

  struct Known {
    std::uint64_t newest = 0;   ///< the latest incarnation that was accepted
    Link* current = nullptr;    ///< null: not connected
    std::optional<RemotePeer> announced{};  ///< on_connected was called, and on_lost was not
  };

  void require_loop(std::string_view function) const {
    if (loop.is_here()) return;
    throw OptionError("reef::swarm::Endpoint::", function, ": called on another thread than the loop's.\n  fix: post.");
  }

  [[nodiscard]] detail::SocketOptions socket_options() const {
    return {options_.times.unacknowledged, tls_ == nullptr};
  }

  detail::Dialer::Events dialer_events() {
    return {[this](const std::string& peer) { return is_connected(peer); },
            [this](std::unique_ptr<detail::Socket> socket, const std::string& address, const std::string& expected) {
              begin(std::move(socket), address, expected);
            },
            [this](const std::string& address, const std::string& why) { refused(address, why); }};
  }

  void refused(const std::string& address, const std::string& why) {
    if (events_.on_refused) loop.call([&] { events_.on_refused(address, why); });
  }

  void accept(std::unique_ptr<detail::Socket> socket) {
    const std::string host = socket->remote_host();
    std::size_t unknown = 0;
    std::size_t unknown_here = 0;
    for (const auto& link : links_) {
      if (link->established) continue;  // a hello without a welcome makes nobody known
      ++unknown;
      if (link->connection->remote_host() == host) ++unknown_here;
    }
    const EndpointLimits& limits = options_.limits;
    if (closing_) return;
    if (links_.size() >= limits.connections || unknown >= limits.unknown || unknown_here >= limits.unknown_each) {
      return refused(socket->remote(), concat("too many connections: ", links_.size(), ", of which ", unknown,
                                              " have not said hello, ", unknown_here, " of this address"));
    }
    begin(std::move(socket), {}, {});
  }

  [[nodiscard]] bool is_connected(const std::string& name) const {
    const auto found = peers_.find(name);
    return found != peers_.end() && found->second.current != nullptr;
  }

  void begin(std::unique_ptr<detail::Socket> socket, const std::string& target, const std::string& expected) {
    auto link = std::make_shared<Link>();
    link->target = target;
    link->expected = expected;
    link->connection = std::make_shared<detail::Connection>(loop, std::move(socket), tls_.get(), !target.empty(),
                                                            options_.limits, options_.times);
    links_.insert(link);
    loop.after(options_.times.hello, [this, weak = std::weak_ptr(link)] {
      const auto late = weak.lock();
      if (late == nullptr || late->established) return;
      late->connection->refuse(concat("no hello and welcome within ", options_.times.hello.count(), " ms"));
    });
    Link* const of = link.get();
    link->connection->start({[this, of] { say_hello(*of); },
                             [this, of](Frame frame) { take(*of, std::move(frame)); },
                             [this, of](const std::string& why) { leave(*of, why); },
                             [this, of](const std::string& why) { end(*of, why); }});
  }

  void say_hello(Link& link) {
    detail::Hello hello;
    hello.job = options_.job;
    hello.peer = {options_.name, options_.role, options_.incarnation, {}, options_.greeting};
    hello.receives = {options_.limits.message, options_.limits.credit, options_.limits.streams};
    link.connection->send(Frame::control(FrameKind::hello, hello.json()));
  }

  void take(Link& link, Frame frame) {
    if (frame.kind == FrameKind::hello) return greet(link, frame.text);
    if (frame.kind == FrameKind::welcome) {
      if (!link.accepted || link.welcomed) throw DecodeError("a welcome where none is due");
      link.welcomed = true;
      return establish(link);
    }
    if (!link.established) {
      if (frame.kind == FrameKind::refuse) return;
      throw DecodeError("a ", name_of(frame.kind), " before the hello and welcome");
    }
    if (link.muted || !events_.on_frame) return;
    std::optional<std::string> malformed;
    delivering_ = link.connection.get();
    loop.call([&] {
      try {
        events_.on_frame(link.peer, std::move(frame));
      } catch (const DecodeError& error) {
        malformed = error.what();
      }
    });
    delivering_ = nullptr;
    if (malformed) throw DecodeError(*malformed);
  }

  void greet(Link& link, const std::string& text) {
    if (link.accepted) throw DecodeError("a second hello");
    const detail::Hello hello = detail::parse_hello(text);
    link.peer = hello.peer;
    link.peer.address = link.connection->remote();
    const Identity own{options_.job, options_.role, options_.name};
    std::string why = detail::why_refused(hello, own, link.connection->identity(), link.expected);
    const auto known = peers_.find(hello.peer.name);
    if (why.empty() && known != peers_.end() && hello.peer.incarnation < known->second.newest) {
      why = concat(hello.peer.name, " is known by a later incarnation than ", hello.peer.incarnation);
    }
    if (why.empty() && events_.on_greeting) {
      why = "the greeting cannot be looked at";
      loop.call([&] { why = events_.on_greeting(link.peer); });
    }
    if (!why.empty()) return link.connection->refuse(why);
    link.accepted = true;
    if (peers_.size() >= most_known) {
      std::erase_if(peers_, [](const auto& entry) {
        return entry.second.current == nullptr && !entry.second.announced;
      });
    }
    Known& peer = peers_[hello.peer.name];
    peer.newest = (std::max)(peer.newest, hello.peer.incarnation);
    dialer_.answered(link.target, hello.peer.name);
    link.connection->set_receiver(hello.receives);
    if (options_.shape) link.connection->set_shape(options_.shape(hello.peer.name));
    link.connection->send(Frame::control(FrameKind::welcome, "{}"));
  }

  void establish(Link& link) {
    Known& known = peers_[link.peer.name];
    if (link.peer.incarnation < known.newest) return link.connection->refuse("a later incarnation has come meanwhile");
    link.established = true;
    link.since = std::chrono::steady_clock::now();
    Link* const before = std::exchange(known.current, &link);
    if (before != nullptr && before->peer.incarnation == link.peer.incarnation) {
      const bool same_side = before->connection->opened_here() == link.connection->opened_here();
      const bool lower_opened = link.connection->opened_here() == (options_.name < link.peer.name);
      if (!same_side && !lower_opened) known.current = before;
      Link& loser = known.current == before ? link : *before;
      for (Frame& frame : loser.connection->take_queue()) known.current->connection->send(std::move(frame));
      return loser.connection->finish("another connection of these two stays");
    }
    if (known.announced && known.announced->incarnation == link.peer.incarnation) return;
    if (before != nullptr) {
      before->muted = true;
      before->connection->refuse("a later incarnation has come");
    }
    lose(known, "it is there again, as a later incarnation");
    known.announced = link.peer;
    if (events_.on_connected) loop.call([&] { events_.on_connected(link.peer); });
  }

  void lose(Known& known, const std::string& why) {
    const std::optional<RemotePeer> lost = std::exchange(known.announced, std::nullopt);
    if (lost && events_.on_lost) loop.call([&] { events_.on_lost(*lost, why); });
  }

  /// Tells the user that a connection is of no use any more.
  void leave(Link& link, const std::string& why) {
    if (std::exchange(link.left, true)) return;
    const auto known = peers_.find(link.peer.name);
    if (!link.established && (!link.accepted || known == peers_.end() || known->second.current == nullptr)) {
      refused(link.connection->remote(), link.peer.name.empty() ? why : concat(link.peer.name, ": ", why));
    }
    if (!link.accepted || known == peers_.end()) return;
    Known& peer = known->second;
    if (peer.current == &link) peer.current = nullptr;
    const bool another = std::ranges::any_of(links_, [&](const auto& one) {
      return one->accepted && !one->connection->is_ending() && one->peer.name == link.peer.name &&
             one->peer.incarnation == link.peer.incarnation;
    });
    if (peer.current == nullptr && !another) lose(peer, why);
  }

  void end(Link& ended, const std::string& why) {
    const auto link = std::find_if(links_.begin(), links_.end(), [&](const auto& one) { return one.get() == &ended; });
    loop.post([gone = *link] {});  // destroyed when no function of it runs
    links_.erase(link);
    leave(ended, why);
    const bool lived = ended.established && std::chrono::steady_clock::now() - ended.since > options_.times.last_retry;
    dialer_.ended(ended.target, ended.peer.name, lived);
    note_closed();
  }

  void note_closed() {
    if (closing_ && links_.empty() && closed_ != nullptr) std::exchange(closed_, nullptr)->set_value();
  }

  static constexpr std::size_t most_known = 4096;

  detail::Dialer dialer_;
  std::unique_ptr<detail::Listener> listener_{};
  std::set<std::shared_ptr<Link>> links_{};
  std::map<std::string, Known, std::less<>> peers_{};
  detail::Connection* delivering_ = nullptr;
  bool closing_ = false;
  std::shared_ptr<std::promise<void>> closed_{};
};

REEF_INLINE Endpoint::Endpoint(EndpointOptions options, EndpointEvents events)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(events))) {}

REEF_INLINE Endpoint::~Endpoint() {
  const auto closed = std::make_shared<std::promise<void>>();
  implementation_->loop.post([this, closed] { implementation_->close(closed); });
  closed->get_future().wait();
  implementation_->loop.stop();
}

REEF_INLINE void Endpoint::start() {
  implementation_->loop.post([this] { implementation_->start(); });
}

REEF_INLINE std::string Endpoint::address() const { return implementation_->address(); }
REEF_INLINE std::uint64_t Endpoint::incarnation() const { return implementation_->incarnation(); }

REEF_INLINE void Endpoint::post(std::function<void()> function) {
  implementation_->loop.post([of = implementation_.get(), function = std::move(function)] { of->run(function); });
}

REEF_INLINE Endpoint::Timer Endpoint::after(std::chrono::nanoseconds wait, std::function<void()> function) {
  return implementation_->loop.after(
      wait, [of = implementation_.get(), function = std::move(function)] { of->run(function); });
}

REEF_INLINE void Endpoint::cancel(Timer timer) { implementation_->loop.cancel(timer); }

REEF_INLINE void Endpoint::connect(std::string address, std::string name) {
  detail::host_and_port(address, "address to connect to");
  post([this, address = std::move(address), name = std::move(name)] { implementation_->connect(address, name); });
}

REEF_INLINE void Endpoint::forget(const std::string& address) {
  post([this, address] { implementation_->forget(address); });
}

REEF_INLINE Sent Endpoint::send(std::string_view peer, Frame frame) {
  return implementation_->send(peer, std::move(frame));
}

REEF_INLINE std::shared_ptr<void> Endpoint::hold() { return implementation_->hold(); }

REEF_INLINE void Endpoint::disconnect(std::string_view peer, const std::string& why) {
  implementation_->disconnect(peer, why);
}

REEF_INLINE std::vector<RemotePeer> Endpoint::peers() const { return implementation_->peers(); }
REEF_INLINE PeerTraffic Endpoint::traffic(std::string_view peer) const { return implementation_->traffic(peer); }
REEF_INLINE EndpointTraffic Endpoint::all_traffic() const {
  return {implementation_->loop.bytes_sent(), implementation_->loop.bytes_received()};
}
REEF_INLINE void Endpoint::set_revoked(std::vector<std::string> serials) { implementation_->set_revoked(serials); }

}  // namespace swarm
}  // namespace v0
}  // namespace reef
