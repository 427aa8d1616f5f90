#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The identity of a peer as its TLS certificate says it, in a URI of the subjectAltName: reef://JOB/ROLE/NAME.
///
/// \code
/// const swarm::Identity identity{"example", "peer", "a"};
/// const std::string uri = identity.uri();                     // "reef://example/peer/a"
/// const bool same = swarm::identity_of(uri) == identity;      // true
/// \endcode
struct Identity {
  std::string job{};
  std::string role{};  ///< "peer", "keeper" (log server) or "client"
  std::string name{};

  [[nodiscard]] std::string uri() const { return "reef://" + job + "/" + role + "/" + name; }

  friend bool operator==(const Identity&, const Identity&) = default;
};

/// Returns true for a text that can be the name of a job or peer: 1 to 64 characters of [A-Za-z0-9._-], not beginning
/// with a dot.
bool is_name(std::string_view text);

/// Returns true for the roles that a certificate can have: "peer", "keeper" and "client".
bool is_role(std::string_view text);

/// Returns the identity that a reef://JOB/ROLE/NAME URI says, or nothing if it is no such URI.
std::optional<Identity> identity_of(std::string_view uri);

/// Throws OptionError, naming what is wrong, unless all parts of the identity can be in a certificate. `who` is named
/// in the error.
void require_identity(const Identity& identity, std::string_view who);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/identity.ipp>
#endif
