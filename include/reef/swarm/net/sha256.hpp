#pragma once

#include <cstddef>
#include <span>

#include <reef/core/language.hpp>
#include <reef/swarm/core/digest.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Returns the SHA-256 of bytes, by OpenSSL.
///
/// \code
/// // given: std::span<const std::byte> bytes
/// const swarm::Digest digest = swarm::sha256(bytes);
/// \endcode
Digest sha256(std::span<const std::byte> bytes);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/sha256.ipp>
#endif
