#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/core/inline.hpp>
#include <reef/swarm/log/detail/base64.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

inline constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

REEF_INLINE std::string base64_of(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : base64_digits[word >> (18 - 6 * k) & 63U];
  }
  return text;
}

REEF_INLINE std::optional<std::string> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t word = 0;
    std::size_t digits = 0;
    for (; digits < 4 && text[i + digits] != '='; ++digits) {
      const std::size_t digit = base64_digits.find(text[i + digits]);
      if (digit == std::string_view::npos) return std::nullopt;
      word = word << 6 | static_cast<std::uint32_t>(digit);
    }
    const bool last = i + 4 == text.size();
    if (digits < 2 || (digits < 4 && !last) || (digits == 2 && text[i + 3] != '=')) return std::nullopt;
    word <<= 6 * (4 - digits);
    for (std::size_t k = 0; k + 1 < digits; ++k) bytes += static_cast<char>(word >> (16 - 8 * k) & 0xFFU);
    if (digits < 4 && (word & (digits == 2 ? 0xFFFFU : 0xFFU)) != 0) return std::nullopt;  // bits of no byte
  }
  return bytes;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
