#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>

namespace reef::test {

/// A socket that is connected to a port of this machine, and waits two minutes for what it reads.
class LoopbackSocket {
public:
  explicit LoopbackSocket(std::uint16_t port) : handle_(::socket(AF_INET, SOCK_STREAM, 0)) {
    ::sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const ::timeval patience{120, 0};
    ::setsockopt(handle_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    connected_ = ::connect(handle_, reinterpret_cast<const ::sockaddr*>(&at), sizeof(at)) == 0;
  }
  ~LoopbackSocket() { ::close(handle_); }
  LoopbackSocket(const LoopbackSocket&) = delete;
  LoopbackSocket& operator=(const LoopbackSocket&) = delete;

  [[nodiscard]] int handle() const { return handle_; }
  [[nodiscard]] bool connected() const { return connected_; }

private:
  int handle_;
  bool connected_ = false;
};

}  // namespace reef::test
