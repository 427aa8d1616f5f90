#pragma once

#include <fcntl.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core.hpp>
#include <openssl/ssl.h>

#include <reef/core/inline.hpp>
#include <reef/swarm/log/detail/asio_stream.hpp>
#include <reef/swarm/net/detail/tls.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

struct AsioTls {
  explicit AsioTls(const TlsFiles& files) : keys(files), context(shared(keys.handle())) {}

  /// Adds an owner to an OpenSSL context: Asio's context is one.
  static ssl_ctx_st* shared(ssl_ctx_st* handle) {
    SSL_CTX_up_ref(handle);
    return handle;
  }

  TlsContext keys;
  boost::asio::ssl::context context;
};

class AsioGate {
public:
  explicit AsioGate(boost::asio::io_context& context) : context_(&context) {}

  /// Runs a function on the context's thread, or never after `close`. Any thread.
  void post(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    if (context_ != nullptr) boost::asio::post(*context_, std::move(function));
  }

  void close() {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
  }

private:
  std::mutex mutex_;
  boost::asio::io_context* context_;  ///< under the mutex
};

/// The one object that all operations of a connection refer to: it must outlive their handlers.
class AsioStream {
public:
  using Layer = boost::beast::tcp_stream;
  using Error = boost::beast::error_code;
  using executor_type = Layer::executor_type;

  explicit AsioStream(boost::asio::io_context& context) : tcp_(context) {}
  explicit AsioStream(boost::asio::ip::tcp::socket socket) : tcp_(std::move(socket)) { prepare(); }
  AsioStream(const AsioStream&) = delete;
  AsioStream& operator=(const AsioStream&) = delete;

  executor_type get_executor() noexcept { return tcp_.get_executor(); }

  /// Returns the TCP stream, which has the deadlines.
  [[nodiscard]] Layer& tcp() { return tcp_; }

  /// Sets the options of a socket that is connected.
  void prepare() {
    Error ignored;
    tcp_.socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    close_on_exec(tcp_.socket().native_handle());
  }

  /// Returns the address of the other side, without its port; empty where it has gone.
  [[nodiscard]] std::string address() const {
    Error error;
    const auto other = tcp_.socket().remote_endpoint(error);
    return error ? std::string() : other.address().to_string();
  }

  void close() {
    Error ignored;
    tcp_.socket().close(ignored);
  }

  /// Agrees on keys with the other side, and calls `done` with an error or none. The certificates are verified then.
  template <class Done>
  void shake_hands(AsioTls& tls, bool client, Done done) {
    tls_.emplace(tcp_, tls.context);
    using Base = boost::asio::ssl::stream_base;
    tls_->async_handshake(client ? Base::client : Base::server, std::move(done));
  }

  /// Returns the identity of the other side; an empty one without TLS.
  [[nodiscard]] Identity identity() { return tls_ ? identity_of_other(tls_->native_handle()) : Identity{}; }
  [[nodiscard]] std::string serial() { return tls_ ? serial_of_other(tls_->native_handle()) : std::string(); }

  /// Returns what an error of this connection means.
  [[nodiscard]] std::string why(const Error& error) {
    return tls_ ? why_handshake_failed(tls_->native_handle(), error.message()) : error.message();
  }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) tls_->async_read_some(buffers, std::forward<Handler>(handler));
    else tcp_.async_read_some(buffers, std::forward<Handler>(handler));
  }

  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) tls_->async_write_some(buffers, std::forward<Handler>(handler));
    else tcp_.async_write_some(buffers, std::forward<Handler>(handler));
  }

private:
  Layer tcp_;
  std::optional<boost::asio::ssl::stream<Layer&>> tls_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
