#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <reef/swarm/net/endpoint_options.hpp>
#include <reef/swarm/net/identity.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// A signature over a text, and the certificate whose key it is of.
struct TextSignature {
  std::string certificate{};  ///< DER
  std::string signature{};
};

/// The author of a text, as a signature proves it.
struct SignedBy {
  Identity who{};
  std::string serial{};  ///< of the certificate, hexadecimal
  std::string why{};     ///< why the signature proves nothing; empty where it does
};

/// Signs texts by the key of a certificate, and verifies signatures of others of the same job.
///
/// | verified | the certificate is of the job's CA and names somebody of the job; the signature is of its key |
/// | time     | neither expiry nor revocation counts: what was signed stays so                               |
/// | cost     | a signature of P-256 for each text; a certificate is verified once, and remembered           |
/// | threads  | any                                                                                          |
class TlsSigner {
public:
  /// Throws OptionError if a file cannot be used.
  explicit TlsSigner(const TlsFiles& files);
  ~TlsSigner();
  TlsSigner(const TlsSigner&) = delete;
  TlsSigner& operator=(const TlsSigner&) = delete;

  /// Returns the identity of the own certificate.
  [[nodiscard]] const Identity& own() const&;
  void own() const&& = delete;

  /// Signs a text. Throws Error where OpenSSL cannot.
  [[nodiscard]] TextSignature sign(std::string_view text) const;

  /// Returns who signed a text.
  [[nodiscard]] SignedBy verify(std::string_view text, const TextSignature& signature) const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/detail/tls_signer.ipp>
#endif
