#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace reef::test {

/// Bytes that go to a port of this machine, and what comes back until the other end closes or is silent for long.
class RawConnection {
public:
  explicit RawConnection(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    ::sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const ::timeval patience{120, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    connected_ = ::connect(socket_, reinterpret_cast<const ::sockaddr*>(&at), sizeof(at)) == 0;
  }
  ~RawConnection() { ::close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  void send(const std::string& bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ::ssize_t put = ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (put <= 0) return;
      done += static_cast<std::size_t>(put);
    }
  }
  /// Ends the sending, and returns all that comes.
  [[nodiscard]] std::string rest() const {
    ::shutdown(socket_, SHUT_WR);
    return all();
  }
  /// Returns all that comes.
  [[nodiscard]] std::string all() const { return until("\n\n never"); }
  /// Returns what comes, up to a text.
  [[nodiscard]] std::string until(const std::string& text) const {
    std::string all;
    char piece[4096];
    while (all.find(text) == std::string::npos) {
      const ::ssize_t got = ::recv(socket_, piece, sizeof(piece), 0);
      if (got <= 0) break;
      all.append(piece, static_cast<std::size_t>(got));
    }
    return all;
  }
  [[nodiscard]] int handle() const { return socket_; }
  [[nodiscard]] bool connected() const { return connected_; }

private:
  int socket_;
  bool connected_ = false;
};

}  // namespace reef::test
