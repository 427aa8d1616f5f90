#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/net/shaped_link.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The files of mutual TLS, PEM each, as swarm::Keys writes them; `authority` empty: no TLS.
struct TlsFiles {
  std::filesystem::path authority{};    ///< the certificate of the job's private CA
  std::filesystem::path certificate{};  ///< that of this peer
  std::filesystem::path key{};          ///< its private key
  std::vector<std::string> revoked{};   ///< serial numbers, hexadecimal, of certificates that are refused
};

/// The bounds of what peers may take of an Endpoint. What exceeds one closes the peer, named, and no other.
struct EndpointLimits {
  Bytes message = 16_MiB;              ///< the most bytes of a bulk message that is received
  Bytes credit = 32_MiB;               ///< bytes of a stream that may come before they are taken; 2 `message` or more
  std::size_t streams = 16;            ///< streams of a peer
  Bytes queued = 256_MiB;              ///< bytes that wait to be sent to one peer: then send refuses
  std::size_t frames = 65536;          ///< frames that wait to be sent to one peer: then send refuses
  std::size_t connections = 256;       ///< connections in all: more are closed when they come
  std::size_t unknown = 128;           ///< connections of all addresses that have not yet said hello
  std::size_t unknown_each = 64;       ///< connections of one address that have not yet said hello
};

/// The waits of an Endpoint; each names whom it waited for when it ends.
struct EndpointTimes {
  std::chrono::milliseconds hello{5000};           ///< from a connection to the other side's hello, TLS included
  std::chrono::milliseconds stall{30000};          ///< without a byte sent, while some wait that credit allows
  std::chrono::milliseconds farewell{2000};        ///< from this side's goodbye to the end of the connection
  std::chrono::milliseconds first_retry{100};      ///< between attempts to connect; doubled up to last_retry
  std::chrono::milliseconds last_retry{5000};
  std::chrono::milliseconds unacknowledged{10000};  ///< TCP's user time-out, and that of its keep-alive
};

/// The settings of an Endpoint.
///
/// \code
/// swarm::EndpointOptions options;
/// options.tls = {.authority = "keys/ca.pem", .certificate = "keys/a.pem", .key = "keys/a.key"};  // job, name and role
/// options.listen = "0.0.0.0:7000";
/// options.limits.message = 4_MiB;
/// options.times.hello = std::chrono::seconds(2);
/// \endcode
struct EndpointOptions {
  std::string job{};              ///< peers of another job are refused
  std::string name{};             ///< this peer's, unique in the job: 1 to 64 of [A-Za-z0-9._-]
  std::string role = "peer";      ///< "peer", "keeper" or "client"; with TLS, that of the certificate
  std::uint64_t incarnation = 0;  ///< later ones are larger; 0: drawn from the clock
  std::string listen{};           ///< "ADDRESS:PORT", port 0: any free one; empty: does not listen
  bool plain_loopback = false;    ///< without TLS: allowed with this alone, and between loopback addresses
  TlsFiles tls{};
  std::string greeting = "{}";  ///< a JSON object, at most 2 KiB, that the hello carries for the other side's user
  EndpointLimits limits{};
  EndpointTimes times{};

  /// Returns the link to a peer, by its name, that is emulated for tests; empty: links are as they are.
  std::function<ShapedLink(const std::string& peer)> shape{};
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
