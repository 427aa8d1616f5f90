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

/// The PEM files of mutual TLS, as swarm::Keys writes them; `authority` empty: no TLS.
struct TlsFiles {
  std::filesystem::path authority{};    ///< file of the certificate of the job's private CA
  std::filesystem::path certificate{};  ///< the certificate of this peer
  std::filesystem::path key{};          ///< the private key of this peer
  std::vector<std::string> revoked{};   ///< serial numbers, hexadecimal, of certificates that are refused
};

/// Limits on what peers may send to an Endpoint. A peer that exceeds one is disconnected, with the reason; others are
/// not affected.
struct EndpointLimits {
  Bytes message = 16_MiB;         ///< the most bytes of a received bulk message
  Bytes credit = 32_MiB;          ///< bytes of a stream that may arrive before they are read; at least 2 * `message`
  std::size_t streams = 16;       ///< most streams of a peer
  Bytes queued = 256_MiB;         ///< most bytes that wait to be sent to one peer; above it send refuses
  std::size_t frames = 65536;     ///< most frames that wait to be sent to one peer; above it send refuses
  std::size_t connections = 256;  ///< most connections in all; further ones are closed at once
  std::size_t unknown = 128;      ///< most connections that have not yet identified themselves, of all addresses
  std::size_t unknown_each = 64;  ///< most connections that have not yet identified themselves, of one address
};

/// The time-outs of an Endpoint; the error of each names the peer that it waited for.
struct EndpointTimes {
  std::chrono::milliseconds hello{5000};  ///< from opening a connection to the other side's first message, TLS included
  std::chrono::milliseconds stall{30000};  ///< time without a byte sent, while bytes wait that flow control allows
  std::chrono::milliseconds farewell{2000};        ///< from this side's goodbye to the end of the connection
  std::chrono::milliseconds first_retry{100};      ///< wait between attempts to connect; doubled up to last_retry
  std::chrono::milliseconds last_retry{5000};
  std::chrono::milliseconds unacknowledged{10000};  ///< TCP's user time-out, and that of its keep-alive probes
};

/// The settings of an Endpoint, which holds a peer's network connections.
///
/// \code
/// swarm::EndpointOptions options;
/// options.tls = {.authority = "keys/ca.pem", .certificate = "keys/a.pem", .key = "keys/a.key"};  // job, name and role
/// options.listen = "0.0.0.0:7000";
/// options.limits.message = 4_MiB;
/// options.times.hello = std::chrono::seconds(2);
/// \endcode
struct EndpointOptions {
  std::string job{};          ///< the job's name; peers of another job are refused
  std::string name{};         ///< name of this peer, unique in the job: 1 to 64 of [A-Za-z0-9._-]
  std::string role = "peer";  ///< "peer", "keeper" (log server) or "client"; with TLS, that of the certificate
  /// Number of this process, larger in later processes of the same name; 0: drawn from the clock.
  std::uint64_t incarnation = 0;
  std::string listen{};         ///< "ADDRESS:PORT" to listen on, port 0: any free one; empty: does not listen
  bool plain_loopback = false;  ///< true: no TLS, between loopback addresses alone
  TlsFiles tls{};
  /// JSON object of at most 2 KiB, sent with the first message, for the other side's user.
  std::string greeting = "{}";
  EndpointLimits limits{};
  EndpointTimes times{};

  /// Returns the emulated link (bandwidth, latency) to the peer of this name, for tests; empty: links are not emulated.
  std::function<ShapedLink(const std::string& peer)> shape{};
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
