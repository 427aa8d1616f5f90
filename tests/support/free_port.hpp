#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

namespace reef::test {

/// Returns a port that was free a moment ago. Not one of those that connections get by themselves, which may take it.
/// Of processes that are started one after the other each gets hundreds of ports before it gets those of another, which
/// may be free for a moment alone: while a server starts again.
inline std::uint16_t free_port() {
  static unsigned next = static_cast<unsigned>(::getpid()) * 4451U;
  for (int tries = 0; tries < 5000; ++tries) {
    next = (next + 4967U) % 12000U;
    const auto port = static_cast<std::uint16_t>(20000U + next);
    const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
    ::sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_free = ::bind(probe, reinterpret_cast<const ::sockaddr*>(&at), sizeof(at)) == 0;
    ::close(probe);
    if (is_free) return port;
  }
  throw std::runtime_error("no port is free");
}

}  // namespace reef::test
