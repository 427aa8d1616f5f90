#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "loopback_socket.hpp"

namespace reef::test {

/// Bytes that go to a port of this machine, and what comes back until the other end closes or is silent for long.
class RawConnection {
public:
  explicit RawConnection(std::uint16_t port) : socket_(port) {}

  void send(const std::string& bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ::ssize_t put = ::send(handle(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (put <= 0) return;
      done += static_cast<std::size_t>(put);
    }
  }
  /// Ends the sending, and returns all that comes.
  [[nodiscard]] std::string rest() const {
    ::shutdown(handle(), SHUT_WR);
    return all();
  }
  /// Returns all that comes.
  [[nodiscard]] std::string all() const {
    std::string all;
    while (receive(all)) {}
    return all;
  }
  /// Returns what comes, up to a text.
  [[nodiscard]] std::string until(const std::string& text) const {
    std::string all;
    while (all.find(text) == std::string::npos && receive(all)) {}
    return all;
  }
  [[nodiscard]] int handle() const { return socket_.handle(); }
  [[nodiscard]] bool connected() const { return socket_.connected(); }

private:
  /// Appends some bytes that come; false if none comes any more.
  bool receive(std::string& all) const {
    char piece[1 << 16];
    const ::ssize_t got = ::recv(handle(), piece, sizeof(piece), 0);
    if (got <= 0) return false;
    all.append(piece, static_cast<std::size_t>(got));
    return true;
  }

  LoopbackSocket socket_;
};

}  // namespace reef::test
