#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/core/digest.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE std::string to_hex(const Digest& digest) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.bytes.size());
  for (const std::uint8_t byte : digest.bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

REEF_INLINE Digest digest_from_hex(std::string_view text, std::string_view source) {
  const auto value_of = [&](char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    throw DecodeError("reef::swarm: ", source, ": a digest has a character that is no digit 0 to f.\n",
                      "  fix: 64 lower-case hexadecimal digits.");
  };
  Digest digest;
  if (text.size() != 2 * digest.bytes.size()) {
    throw DecodeError("reef::swarm: ", source, ": a digest has ", text.size(),
                      " characters.\n  fix: 64 lower-case hexadecimal digits.");
  }
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<std::uint8_t>(16 * value_of(text[2 * i]) + value_of(text[2 * i + 1]));
  }
  return digest;
}

REEF_INLINE Digest root_of(std::span<const Digest> digests, const DigestFunction& function) {
  std::vector<std::byte> bytes;
  bytes.reserve(digests.size() * sizeof(Digest::bytes));
  for (const Digest& digest : digests) {
    for (const std::uint8_t byte : digest.bytes) bytes.push_back(static_cast<std::byte>(byte));
  }
  return function(bytes);
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
