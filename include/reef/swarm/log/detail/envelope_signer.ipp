#pragma once

#include <optional>
#include <string>

#include <reef/core/inline.hpp>
#include <reef/swarm/log/detail/base64.hpp>
#include <reef/swarm/log/detail/envelope_signer.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE void EnvelopeSigner::sign(LogEnvelope& envelope, LogIndex at) const {
  const TextSignature made = signer_.sign(signed_text(envelope, own().job, at));
  envelope.certificate = base64_of(made.certificate);
  envelope.signature = base64_of(made.signature);
}

REEF_INLINE SignedBy EnvelopeSigner::verify(const LogEnvelope& envelope, LogIndex at) const {
  if (envelope.signature.empty()) return {.who = {}, .serial = {}, .why = "it is not signed"};
  const std::optional<std::string> certificate = bytes_of_base64(envelope.certificate);
  const std::optional<std::string> signature = bytes_of_base64(envelope.signature);
  if (!certificate || !signature)
    return {.who = {}, .serial = {}, .why = "its certificate or its signature is no base64"};
  return signer_.verify(signed_text(envelope, own().job, at), {*certificate, *signature});
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
