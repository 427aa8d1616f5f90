#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <reef/swarm/net/detail/connection.hpp>
#include <reef/swarm/net/endpoint.hpp>
#include <reef/swarm/net/identity.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The first frame of each side of a connection.
struct Hello {
  std::string job{};
  RemotePeer peer{};  ///< all but its address
  ReceiverLimits receives{};

  [[nodiscard]] std::string json() const;
};

/// Reads a hello. Throws DecodeError for a text that is none, of another version, or with names or limits that are
/// none.
Hello parse_hello(std::string_view text);

/// Returns why a hello is not accepted here, or an empty text. `certified`: the identity of the certificate, with TLS;
/// `expected`: the name that must answer, or empty.
std::string why_refused(const Hello& hello, const Identity& own, const std::optional<Identity>& certified,
                        std::string_view expected);

/// Checks options and completes them: the incarnation, and with TLS, names that are left out. Throws OptionError.
EndpointOptions checked(EndpointOptions options, const TlsContext* tls);

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/detail/hello.ipp>
#endif
