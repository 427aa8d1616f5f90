#pragma once

#include <span>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/log/envelope.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE std::string to_text(const LogEnvelope& envelope) {
  io::Json head{{"previous", to_hex(envelope.previous)}};
  if (!envelope.signature.empty()) {
    head["certificate"] = envelope.certificate;
    head["signature"] = envelope.signature;
  }
  return concat(head.dump(), "\n", envelope.entry);
}

REEF_INLINE LogEnvelope envelope_from_text(std::string_view text) {
  const io::JsonSource source("an entry's envelope", "write to a job's log by swarm::ChainedLog.");
  const std::size_t line = text.find('\n');
  if (line > max_envelope_bytes || line + 1 == text.size()) {
    throw DecodeError("reef::swarm: the text has no line of an envelope before an entry.\n",
                      "  fix: write to a job's log by swarm::ChainedLog.");
  }
  const io::Json head = io::parse_json(text.substr(0, line), source, {.bytes = max_envelope_bytes, .depth = 2});
  io::require_object(head, "", source);
  LogEnvelope envelope;
  envelope.previous = digest_from_hex(io::require<std::string>(head, "previous", source), "previous");
  envelope.certificate = io::value_or<std::string>(head, "certificate", {}, source);
  envelope.signature = io::value_or<std::string>(head, "signature", {}, source);
  envelope.entry = text.substr(line + 1);
  return envelope;
}

REEF_INLINE std::string signed_text(const LogEnvelope& envelope, std::string_view job, LogIndex at) {
  return concat("reef log entry 1\n", job, "\n", at, "\n", to_hex(envelope.previous), "\n", envelope.entry);
}

REEF_INLINE Digest digest_of_text(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

}  // namespace swarm
}  // namespace v0
}  // namespace reef
