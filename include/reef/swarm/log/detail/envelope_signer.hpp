#pragma once

#include <reef/swarm/log/envelope.hpp>
#include <reef/swarm/net/detail/tls_signer.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Signs envelopes of a job's log, and verifies those of others, as TlsSigner does texts. An entry that was decided
/// stays one: when a certificate ends, or is revoked, a log's server takes no new ones (AppendGate).
class EnvelopeSigner {
public:
  /// Throws OptionError if a file cannot be used.
  explicit EnvelopeSigner(const TlsFiles& files) : signer_(files) {}

  /// Returns the identity of the own certificate.
  [[nodiscard]] const Identity& own() const& { return signer_.own(); }
  void own() const&& = delete;

  /// Signs an envelope for index `at` of the log. Throws Error where OpenSSL cannot.
  void sign(LogEnvelope& envelope, LogIndex at) const;

  /// Returns who signed an envelope that stands at index `at`.
  [[nodiscard]] SignedBy verify(const LogEnvelope& envelope, LogIndex at) const;

private:
  TlsSigner signer_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/envelope_signer.ipp>
#endif
