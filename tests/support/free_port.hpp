#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

namespace reef::test {

/// Returns a port that was free a moment ago. Not one of those that connections get by themselves, which may take it.
inline std::uint16_t free_port() {
  static std::uint16_t next = static_cast<std::uint16_t>(20000 + ::getpid() % 5000 * 2);
  for (int tries = 0; tries < 5000; ++tries) {
    const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
    ::sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(next);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_free = ::bind(probe, reinterpret_cast<const ::sockaddr*>(&at), sizeof(at)) == 0;
    ::close(probe);
    const std::uint16_t port = next;
    next = static_cast<std::uint16_t>(next < 32000 ? next + 1 : 20000);
    if (is_free) return port;
  }
  throw std::runtime_error("no port is free");
}

}  // namespace reef::test
