#pragma once

#include <openssl/evp.h>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  unsigned int length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.bytes.data(), &length, EVP_sha256(), nullptr) != 1 ||
      length != digest.bytes.size()) {
    throw Error("reef::swarm::sha256: OpenSSL computes no SHA-256.\n  fix: an OpenSSL 3 with its default provider.");
  }
  return digest;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
