#pragma once

#include <array>
#include <cstring>

#include <reef/core/inline.hpp>
#include <reef/io/checksum.hpp>

namespace reef {
inline namespace v0 {
namespace io {

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
REEF_INLINE std::uint32_t crc32c_portable(std::uint32_t crc, const std::byte* data,
                                          std::size_t size) {
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

/// a b modulo the polynomial; the highest bit is the constant term.
constexpr std::uint32_t crc32c_product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & 0x80000000U) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return product;
}

#if defined(__x86_64__) && defined(__GNUC__)
/// Bytes of each of the three streams; a power of two.
inline constexpr std::size_t crc32c_stream = 2048;

/// tables[k][b]: what byte k of a remainder, being b, has become a stream of zero bytes later.
consteval std::array<std::array<std::uint32_t, 256>, 4> make_crc32c_stream_tables() {
  std::uint32_t factor = 0x80000000U >> 8;  // of one byte; squared for twice as many
  for (std::size_t bytes = 1; bytes < crc32c_stream; bytes *= 2) {
    factor = crc32c_product(factor, factor);
  }
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::uint32_t k = 0; k < 4; ++k) {
    for (std::uint32_t b = 0; b < 256; ++b) tables[k][b] = crc32c_product(b << (8 * k), factor);
  }
  return tables;
}

inline constexpr auto crc32c_stream_tables = make_crc32c_stream_tables();

inline std::uint32_t crc32c_after_stream(std::uint64_t crc) {
  const auto& t = crc32c_stream_tables;
  return t[0][crc & 0xFFU] ^ t[1][(crc >> 8) & 0xFFU] ^ t[2][(crc >> 16) & 0xFFU] ^
         t[3][(crc >> 24) & 0xFFU];
}

/// The same by SSE 4.2's instruction, as text, so that no compiler needs a flag for it. It takes three
/// cycles but could begin in each: three streams side by side keep it busy.
inline std::uint32_t crc32c_sse42(std::uint32_t crc, const std::byte* data, std::size_t size) {
  const auto add = [](std::uint64_t& to, const std::byte* from) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, 8);
    asm("crc32q %1, %0" : "+r"(to) : "r"(word));
  };
  std::uint64_t wide = crc;
  for (; size >= 3 * crc32c_stream; data += 3 * crc32c_stream, size -= 3 * crc32c_stream) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < crc32c_stream; i += 8) {
      add(wide, data + i);
      add(second, data + i + crc32c_stream);
      add(third, data + i + 2 * crc32c_stream);
    }
    wide = crc32c_after_stream(crc32c_after_stream(wide) ^ second) ^ third;
  }
  for (; size >= 8; data += 8, size -= 8) add(wide, data);
  return crc32c_portable(static_cast<std::uint32_t>(wide), data, size);
}
#endif

}  // namespace detail

REEF_INLINE std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  const std::uint32_t crc = ~before;
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2") != 0;
  if (has_sse42) return ~detail::crc32c_sse42(crc, bytes.data(), bytes.size());
#endif
  return ~detail::crc32c_portable(crc, bytes.data(), bytes.size());
}

REEF_INLINE std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  std::uint32_t of_zeros = 0x80000000U >> 8;  // of one byte; squared for twice as many
  for (; second_bytes != 0; second_bytes >>= 1) {
    if ((second_bytes & 1U) != 0) first = detail::crc32c_product(of_zeros, first);
    of_zeros = detail::crc32c_product(of_zeros, of_zeros);
  }
  return first ^ second;
}

}  // namespace io
}  // namespace v0
}  // namespace reef
