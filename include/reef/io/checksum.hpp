#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace reef::inline v0::io {

namespace detail {

/// tables[k][b]: the remainder of byte b followed by k zero bytes, so that 8 bytes go at once.
consteval std::array<std::array<std::uint32_t, 256>, 8> make_crc32c_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}

inline constexpr auto crc32c_tables = make_crc32c_tables();

/// One step per byte up to a multiple of 8, then eight bytes a step (slicing by 8).
inline std::uint32_t crc32c_portable(std::uint32_t crc, const std::byte* data, std::size_t size) {
  const auto& t = crc32c_tables;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(data[i]); };
  for (; size >= 8; data += 8, size -= 8) {
    crc ^= byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    crc = t[7][crc & 0xFFU] ^ t[6][(crc >> 8) & 0xFFU] ^ t[5][(crc >> 16) & 0xFFU] ^
          t[4][crc >> 24] ^ t[3][byte(4)] ^ t[2][byte(5)] ^ t[1][byte(6)] ^ t[0][byte(7)];
  }
  for (; size != 0; ++data, --size) crc = (crc >> 8) ^ t[0][(crc ^ byte(0)) & 0xFFU];
  return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
/// The same by SSE 4.2's instruction, as text, so that no compiler needs a flag for it.
inline std::uint32_t crc32c_sse42(std::uint32_t crc, const std::byte* data, std::size_t size) {
  std::uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    asm("crc32q %1, %0" : "+r"(wide) : "r"(word));
  }
  return crc32c_portable(static_cast<std::uint32_t>(wide), data, size);
}
#endif

}  // namespace detail

/// CRC-32C (Castagnoli) of bytes; give the checksum of what came before to go on.
///
/// | cost   | several GB/s with SSE 4.2, where the machine has it; else about 2 GB/s |
///
/// Source: RFC 3720, section 12.1 and appendix B.4.
inline std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) {
  const std::uint32_t crc = ~before;
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2") != 0;
  if (has_sse42) return ~detail::crc32c_sse42(crc, bytes.data(), bytes.size());
#endif
  return ~detail::crc32c_portable(crc, bytes.data(), bytes.size());
}

}  // namespace reef::inline v0::io
