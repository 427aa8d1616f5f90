#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <reef/core/units.hpp>
#include <reef/swarm/core/digest.hpp>
#include <reef/swarm/log/decision_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The most bytes that a LogEnvelope adds to the text of its entry.
inline constexpr Bytes max_envelope_bytes = 4_KiB;

/// The largest size in bytes of an entry that has an envelope: both together are max_entry_bytes at most.
inline constexpr Bytes max_chained_entry_bytes = max_entry_bytes - max_envelope_bytes;

/// An entry of a replicated log with what binds the entry to its place: the digest of the entry before, and where a job
/// has keys, its author's signature.
///
///     {"certificate":BASE64,"previous":HEX,"signature":BASE64}   one line of JSON
///     ENTRY                                                      the rest of the text, byte for byte
///
/// \code
/// const swarm::LogEnvelope first{.entry = R"({"kind":"genesis"})"};  // follows nothing
/// const swarm::LogEnvelope second{.previous = swarm::digest_of_text(swarm::to_text(first)), .entry = "{}"};
/// const bool same = swarm::envelope_from_text(swarm::to_text(second)) == second;  // true
/// \endcode
struct LogEnvelope {
  Digest previous{};          ///< SHA-256 of the whole text that stands before; of the first entry all zeros
  std::string certificate{};  ///< the author's certificate, DER in base64; empty without keys
  std::string signature{};    ///< the author's signature over signed_text(), in base64; empty without keys
  std::string entry{};        ///< the entry itself

  friend bool operator==(const LogEnvelope&, const LogEnvelope&) = default;
};

/// Returns an envelope and its entry as the text that stands in the log.
std::string to_text(const LogEnvelope& envelope);

/// Returns the envelope that a text of the log says. Throws DecodeError for a text that is none.
LogEnvelope envelope_from_text(std::string_view text);

/// Returns the text that the author of an envelope signs: the job, the index in the log, the digest of the entry
/// before, and the entry. So a signature holds at one place of one log.
std::string signed_text(const LogEnvelope& envelope, std::string_view job, LogIndex at);

/// Returns the SHA-256 of a text.
Digest digest_of_text(std::string_view text);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/envelope.ipp>
#endif
