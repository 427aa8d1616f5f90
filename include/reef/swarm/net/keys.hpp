#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <reef/swarm/net/endpoint_options.hpp>
#include <reef/swarm/net/identity.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The host that the certificates of keepers have, and no others: the etcds of keepers know each other by it.
inline constexpr std::string_view keeper_host = "keeper.reef";

/// The settings of a certificate.
struct CertificateOptions {
  std::chrono::seconds begins{-300};                          ///< begin of validity, relative to now: clocks differ
  std::chrono::seconds lasts = std::chrono::hours(24 * 365);  ///< duration of validity, after `begins`
  std::vector<std::string> hosts{};  ///< host names and addresses of a log server, which HTTPS checks
};

/// A certificate that a job's private CA has issued.
struct IssuedCertificate {
  Identity identity{};
  std::string serial{};  ///< hexadecimal serial number
  std::string until{};   ///< end of the certificate's validity, as OpenSSL writes it
  bool revoked = false;
};

/// The private CA of a job, a folder: who has a certificate of it can join the job, and nobody else.
///
/// | ca.pem, ca.key     | the CA's certificate, which all peers need, and its private key, which none may have     |
/// | NAME.pem, NAME.key | the certificate and private key of one peer, keeper or client, which it alone needs      |
/// | keys.json          | what was issued, and what is revoked                                                     |
/// | keys               | EC P-256; subjects without a common name; the identity is a URI in the subjectAltName,   |
/// |                    | reef://JOB/ROLE/NAME. Peers and keepers act as server and client, clients as client.     |
/// |                    | Keepers have the hosts keeper.reef and 127.0.0.1 besides those that are asked for        |
/// | files              | mode 0600, in a folder of mode 0700; each appears whole or not at all                    |
/// | errors             | OptionError: names, a folder that is no such CA, or has one already, a name that is      |
/// |                    | issued; FileError: files that cannot be read or written. Nothing was issued then         |
///
/// \code
/// swarm::Keys keys = swarm::Keys::make("keys", "example");
/// keys.issue("peer", "a");
/// swarm::EndpointOptions options;
/// options.tls = keys.files("a");
/// keys.revoke("a");  // and publish keys.revoked()
/// \endcode
class Keys {
public:
  /// Makes a new CA in a folder, which is created if it is missing. `lasts`: the validity of the CA's certificate.
  static Keys make(const std::filesystem::path& folder, std::string_view job,
                   std::chrono::seconds lasts = std::chrono::hours(24 * 3650));

  /// Opens the CA of an existing folder.
  explicit Keys(const std::filesystem::path& folder);

  /// Issues a certificate, and writes it and its key to the folder. `role`: peer, keeper or client. A name that has a
  /// certificate gets another one once that is revoked.
  IssuedCertificate issue(std::string_view role, std::string_view name, const CertificateOptions& options = {});

  /// Revokes all certificates of a name, or the one with a serial number. Returns the newly revoked serial numbers.
  std::vector<std::string> revoke(std::string_view name_or_serial);

  [[nodiscard]] std::string job() const { return job_; }
  [[nodiscard]] std::vector<IssuedCertificate> issued() const { return issued_; }

  /// Returns the serial numbers of revoked certificates, for TlsFiles::revoked and Endpoint::set_revoked.
  [[nodiscard]] std::vector<std::string> revoked() const;

  /// Returns the files that the peer of this name needs, with the present list of revoked certificates.
  [[nodiscard]] TlsFiles files(std::string_view name) const;

private:
  Keys(std::filesystem::path folder, std::string job) : folder_(std::move(folder)), job_(std::move(job)) {}
  void write_list() const;

  std::filesystem::path folder_;
  std::string job_;
  std::vector<IssuedCertificate> issued_{};
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/keys.ipp>
#endif
