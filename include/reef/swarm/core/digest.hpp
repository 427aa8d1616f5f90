#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// A digest of 32 bytes, such as SHA-256 makes. All zeros: no digest.
///
/// \code
/// const swarm::Digest none;
/// const std::string text = swarm::to_hex(none);  // 64 digits
/// \endcode
struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  friend auto operator<=>(const Digest&, const Digest&) = default;
};

/// A function that computes the digest of bytes: SHA-256 in a job, any other in a simulation.
using DigestFunction = std::function<Digest(std::span<const std::byte>)>;

/// Returns a digest as 64 hexadecimal digits.
std::string to_hex(const Digest& digest);

/// Returns the digest that `text` spells. Throws DecodeError, naming `source`, for text that is not 64 such digits.
Digest digest_from_hex(std::string_view text, std::string_view source);

/// Returns the digest of the concatenated digests of a list.
Digest root_of(std::span<const Digest> digests, const DigestFunction& function);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/digest.ipp>
#endif
