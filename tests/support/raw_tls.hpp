#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/swarm/net/detail/tls.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

#include "loopback_socket.hpp"

namespace reef::test {

/// A TLS client of a port of this machine, which a test speaks over byte by byte, the handshake included.
class RawTls {
public:
  RawTls(std::uint16_t port, const swarm::TlsFiles& files)
      : socket_(port), context_(files), session_(context_, true), alive_(socket_.connected()) {}

  /// Returns the first bytes of the handshake, which are not sent yet.
  [[nodiscard]] std::vector<std::byte> first_bytes() {
    std::vector<std::byte> out;
    static_cast<void>(session_.receive({}, out, [](std::span<const std::byte>) {}));
    return out;
  }

  /// Completes the handshake. Returns false if the other side ends it. A refusal of the client's certificate comes
  /// afterwards, with the first bytes that are read.
  bool shake_hands() {
    put(first_bytes());
    while (alive_ && !session_.is_open()) take();
    return alive_;
  }

  /// Sends plain bytes, encrypted. Returns false if the other side takes no more.
  bool send(std::string_view text) { return send(std::as_bytes(std::span(text))); }
  bool send(std::span<const std::byte> plain) {
    std::vector<std::byte> out;
    session_.send(plain, out);
    return put(out);
  }

  /// Sends bytes as they are.
  bool put(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ::ssize_t sent = ::send(socket_.handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// Returns plain bytes that have come, with those of the handshake none; empty too at the end.
  std::string take() {
    std::vector<std::byte> wire(16384);
    const ::ssize_t got = ::recv(socket_.handle(), wire.data(), wire.size(), 0);
    std::string plain;
    std::vector<std::byte> out;
    alive_ = got > 0 && session_.receive(std::span(wire).first(static_cast<std::size_t>(got)), out,
                                         [&](std::span<const std::byte> bytes) {
                                           plain.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                                         });
    put(out);
    return plain;
  }

  /// Returns all plain bytes up to the end of the connection.
  std::string all() {
    std::string plain;
    while (alive_) plain += take();
    return plain;
  }

private:
  LoopbackSocket socket_;
  swarm::detail::TlsContext context_;
  swarm::detail::TlsSession session_;
  bool alive_;
};

}  // namespace reef::test
