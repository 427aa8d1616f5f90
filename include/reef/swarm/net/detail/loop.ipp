#pragma once

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

// Asio's fences, which ThreadSanitizer does not know and g++ warns of. Locks order the same accesses.
#if defined(__SANITIZE_THREAD__) && !defined(BOOST_ASIO_DISABLE_FENCED_BLOCK)
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#endif

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>
#include <reef/swarm/net/detail/host_and_port.hpp>
#include <reef/swarm/net/detail/loop.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

struct Loop::Context {
  struct Timer {
    Function function{};
    std::unique_ptr<asio::steady_timer> timer{};
  };

  asio::io_context io{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work{io.get_executor()};
  std::mutex mutex{};
  std::map<std::uint64_t, Timer> timers{};  ///< under the mutex
  std::uint64_t last_timer = 0;             ///< under the mutex
  std::vector<std::byte> received = std::vector<std::byte>(256 << 10);
  std::atomic<Bytes> bytes_sent{0};
  std::atomic<Bytes> bytes_received{0};
  std::thread thread{};
};

REEF_INLINE Loop::Loop(std::function<void(const std::string&)> on_error)
    : on_error_(std::move(on_error)), context_(std::make_shared<Context>()) {
  context_->thread = make_thread("reef::swarm: the event loop", [this] { context_->io.run(); });
}

REEF_INLINE Loop::~Loop() { stop(); }

REEF_INLINE bool Loop::is_here() const { return context_->io.get_executor().running_in_this_thread(); }

REEF_INLINE Bytes Loop::bytes_sent() const { return context_->bytes_sent.load(std::memory_order_relaxed); }
REEF_INLINE Bytes Loop::bytes_received() const { return context_->bytes_received.load(std::memory_order_relaxed); }

REEF_INLINE void Loop::stop() {
  if (!context_->thread.joinable()) return;
  context_->work.reset();
  context_->io.stop();
  context_->thread.join();
}

REEF_INLINE void Loop::call(const Function& function) noexcept {
  try {
    function();
  } catch (const std::exception& error) {
    if (!on_error_) std::terminate();
    on_error_(error.what());
  }
}

REEF_INLINE void Loop::post(Function function) {
  asio::post(context_->io, [this, function = std::move(function)] { call(function); });
}

REEF_INLINE std::function<void(Loop::Function)> Loop::poster() {
  return [this, weak = std::weak_ptr<Context>(context_)](Function function) {
    const auto context = weak.lock();
    if (context == nullptr) return;
    asio::post(context->io, [this, function = std::move(function)] { call(function); });
  };
}

REEF_INLINE std::uint64_t Loop::after(std::chrono::nanoseconds wait, Function function) {
  std::uint64_t timer = 0;
  {
    const std::lock_guard lock(context_->mutex);
    timer = ++context_->last_timer;
    context_->timers[timer].function = std::move(function);
  }
  if (is_here()) {
    arm(timer, wait);
  } else {
    asio::post(context_->io, [this, timer, until = std::chrono::steady_clock::now() + wait] {
      arm(timer, until - std::chrono::steady_clock::now());
    });
  }
  return timer;
}

REEF_INLINE void Loop::arm(std::uint64_t timer, std::chrono::nanoseconds wait) {
  const std::lock_guard lock(context_->mutex);
  const auto found = context_->timers.find(timer);
  if (found == context_->timers.end()) return;  // cancelled before it was armed
  found->second.timer = std::make_unique<asio::steady_timer>(context_->io, wait);
  found->second.timer->async_wait([this, timer](ErrorCode) {
    Function function;
    {
      const std::lock_guard locked(context_->mutex);
      const auto fired = context_->timers.find(timer);
      if (fired == context_->timers.end()) return;  // cancelled
      function = std::move(fired->second.function);
      context_->timers.erase(fired);
    }
    call(function);
  });
}

REEF_INLINE void Loop::cancel(std::uint64_t timer) {
  Context::Timer gone;  // destroyed without the lock: its function may own what cancels timers
  std::unique_lock lock(context_->mutex);
  const auto found = context_->timers.find(timer);
  if (found == context_->timers.end()) return;
  if (found->second.timer == nullptr || is_here()) {
    gone = std::move(found->second);
    context_->timers.erase(found);
    lock.unlock();
    return;
  }
  gone.function = std::exchange(found->second.function, [] {});
  lock.unlock();
  asio::post(context_->io, [this, timer] { cancel(timer); });
}

REEF_INLINE std::string text_of(const Tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? concat("[", host, "]:", endpoint.port()) : concat(host, ":", endpoint.port());
}

REEF_INLINE void set_options(Tcp::socket& socket, const SocketOptions& options) {
  ErrorCode ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.non_blocking(true, ignored);
  const int seconds = (std::max)(1, static_cast<int>(options.unacknowledged.count() / 4000));
  const int probes = 3;
  const auto milliseconds = static_cast<unsigned>(options.unacknowledged.count());
  const int handle = socket.native_handle();
  ::setsockopt(handle, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(handle, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  ::setsockopt(handle, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

/// Returns the address as numbers, without asking a name server.
REEF_INLINE Tcp::endpoint endpoint_of(const std::string& address, const std::string& what) {
  const auto [host, port] = host_and_port(address, what);
  ErrorCode error;
  const auto number = asio::ip::make_address(host, error);
  if (error) {
    throw OptionError("reef::swarm: the ", what, " is \"", address, "\", and \"", host,
                      "\" is no numeric address.\n  fix: such as 127.0.0.1:7000, or 0.0.0.0:7000 for all of IPv4.");
  }
  return {number, port};
}

// Handlers hold the state alone, so that a Socket can be destroyed in any of its functions.
struct Socket::State : std::enable_shared_from_this<Socket::State> {
  State(Loop& owner, Tcp::socket connected) : loop(owner), socket(std::move(connected)) {
    ErrorCode error;
    const Tcp::endpoint other = socket.remote_endpoint(error);
    remote = error ? "an address that is gone" : text_of(other);
    host = error ? remote : other.address().to_string();
  }

  void read() {
    socket.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
      self->loop.call([&] { self->readable(error); });
    });
  }

  void readable(ErrorCode error) {
    if (face == nullptr) return;
    std::size_t size = 0;
    if (!error) size = socket.read_some(asio::buffer(loop.context().received), error);
    if (error == asio::error::would_block || error == asio::error::try_again) return read();
    if (error == asio::error::eof && face->on_half) return face->on_half();
    if (error) return end(error == asio::error::eof ? "the other side ended the connection" : error.message());
    loop.context().bytes_received.fetch_add(size, std::memory_order_relaxed);
    face->on_bytes(std::span(loop.context().received).first(size));
    if (face != nullptr) read();
  }

  void write() {
    asio::async_write(socket, asio::buffer(writing), [self = shared_from_this()](ErrorCode error, std::size_t size) {
      self->loop.call([&] {
        self->loop.context().bytes_sent.fetch_add(size, std::memory_order_relaxed);
        if (self->face == nullptr) return;
        self->writing.clear();
        if (error) return self->end(error.message());
        self->face->on_written();
      });
    });
  }

  void end(const std::string& why) {
    Socket* const ended = std::exchange(face, nullptr);
    if (ended != nullptr) ended->on_end(why);
  }

  Loop& loop;
  Tcp::socket socket;
  std::string remote{};
  std::string host{};
  std::vector<std::byte> writing{};
  Socket* face = nullptr;  ///< null: closed or ended
};

REEF_INLINE void Socket::start() {
  state_->face = this;
  state_->read();
}

REEF_INLINE void Socket::write(std::vector<std::byte>&& bytes) {
  state_->writing = std::move(bytes);
  state_->write();
}

REEF_INLINE std::vector<std::byte> Socket::spare() { return std::exchange(state_->writing, {}); }

REEF_INLINE void Socket::end_writing() {
  ErrorCode ignored;
  state_->socket.shutdown(Tcp::socket::shutdown_send, ignored);
}

REEF_INLINE void Socket::close() {
  state_->face = nullptr;
  ErrorCode ignored;
  state_->socket.close(ignored);
}

REEF_INLINE std::string Socket::remote() const { return state_->remote; }
REEF_INLINE std::string Socket::remote_host() const { return state_->host; }

struct Listener::State : std::enable_shared_from_this<Listener::State> {
  State(Loop& owner, SocketOptions set, OnSocket call)
      : loop(owner),
        options(set),
        on_socket(std::move(call)),
        acceptor(owner.context().io),
        pause(owner.context().io) {}

  void accept() {
    acceptor.async_accept([self = shared_from_this()](ErrorCode error, Tcp::socket socket) {
      if (!self->acceptor.is_open()) return;
      if (error) {  // such as too many open files: others may end meanwhile
        self->pause.expires_after(std::chrono::milliseconds(100));
        self->pause.async_wait([self](ErrorCode) {
          if (self->acceptor.is_open()) self->accept();
        });
        return;
      }
      set_options(socket, self->options);
      auto state = std::make_shared<Socket::State>(self->loop, std::move(socket));
      self->loop.call([&] { self->on_socket(std::make_unique<Socket>(std::move(state))); });
      self->accept();
    });
  }

  Loop& loop;
  SocketOptions options;
  OnSocket on_socket;
  Tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::string address{};
};

REEF_INLINE Listener::Listener(Loop& loop, const std::string& address, SocketOptions options, OnSocket on_socket)
    : state_(std::make_shared<State>(loop, options, std::move(on_socket))) {
  const Tcp::endpoint endpoint = endpoint_of(address, "address to listen on");
  if (options.loopback_only && !endpoint.address().is_loopback()) {
    throw OptionError("reef::swarm: would listen on ", address, " without TLS.\n  why: whoever reaches it could ",
                      "join.\n  fix: EndpointOptions::tls, with files of `reef-swarm keys`; or a loopback address.");
  }
  try {
    state_->acceptor.open(endpoint.protocol());
    state_->acceptor.set_option(asio::socket_base::reuse_address(true));
    state_->acceptor.bind(endpoint);
    state_->acceptor.listen();
    state_->address = text_of(state_->acceptor.local_endpoint());
  } catch (const std::exception& error) {
    throw Error("reef::swarm: cannot listen on ", address, ": ", error.what(),
                ".\n  fix: an address of this machine, and a port that no program has.");
  }
}

REEF_INLINE void Listener::start() { state_->accept(); }

REEF_INLINE Listener::~Listener() = default;
REEF_INLINE std::string Listener::address() const { return state_->address; }

REEF_INLINE void Listener::close() {
  ErrorCode ignored;
  state_->acceptor.close(ignored);
  state_->pause.cancel();
}

struct Connecting::State : std::enable_shared_from_this<Connecting::State> {
  State(Loop& owner, SocketOptions set, OnEnd call)
      : loop(owner), options(set), on_end(std::move(call)), resolver(owner.context().io), socket(owner.context().io) {}

  void start(const std::string& address) {
    const auto [host, port] = host_and_port(address, "address to connect to");
    resolver.async_resolve(host, std::to_string(port), [self = shared_from_this()](ErrorCode error, auto found) {
      if (error) return self->end(error.message());
      std::vector<Tcp::endpoint> allowed;
      for (const auto& entry : found) {
        if (!self->options.loopback_only || entry.endpoint().address().is_loopback()) allowed.push_back(entry);
      }
      if (allowed.empty()) return self->end("is no loopback address, which connections without TLS need");
      self->endpoints = std::move(allowed);
      asio::async_connect(self->socket, self->endpoints, [self](ErrorCode failed, const Tcp::endpoint&) {
        // A port that nobody listens on may be chosen for this end too: TCP then connects the socket with itself.
        ErrorCode ignored;
        const bool itself = !failed && self->socket.local_endpoint(ignored) == self->socket.remote_endpoint(ignored);
        self->end(failed ? failed.message() : std::string(itself ? "nobody listens there" : ""));
      });
    });
  }

  void end(const std::string& why) {
    const OnEnd call = std::exchange(on_end, nullptr);
    if (!call) return;
    std::unique_ptr<Socket> connected;
    if (!why.empty()) {
      ErrorCode ignored;
      socket.close(ignored);
    } else {
      set_options(socket, options);
      connected = std::make_unique<Socket>(std::make_shared<Socket::State>(loop, std::move(socket)));
    }
    loop.call([&] { call(std::move(connected), why); });
  }

  Loop& loop;
  SocketOptions options;
  OnEnd on_end;
  Tcp::resolver resolver;
  Tcp::socket socket;
  std::vector<Tcp::endpoint> endpoints{};
};

REEF_INLINE Connecting::Connecting(Loop& loop, const std::string& address, SocketOptions options, OnEnd on_end)
    : state_(std::make_shared<State>(loop, options, std::move(on_end))) {
  state_->start(address);
}

REEF_INLINE Connecting::~Connecting() {
  state_->on_end = nullptr;
  ErrorCode ignored;
  state_->socket.close(ignored);
  state_->resolver.cancel();
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
