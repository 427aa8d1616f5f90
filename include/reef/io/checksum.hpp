#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

/// Computes CRC-32C without special instructions: byte by byte up to an aligned address, then 8 bytes at a time.
std::uint32_t crc32c_portable(std::uint32_t crc, const std::byte* data, std::size_t size);

}  // namespace detail

/// Computes the CRC-32C (Castagnoli) of bytes; `before` is the checksum of preceding bytes, which it continues.
///
/// | cost | memory bandwidth with SSE 4.2, where the machine has it; else about 2 GB/s |
///
/// Source: RFC 3720, section 12.1 and appendix B.4.
///
/// \code
/// // given: std::span<const std::byte> header, std::span<const std::byte> data
/// const std::uint32_t checksum = io::crc32c(data, io::crc32c(header));
/// \endcode
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// Computes the CRC-32C of two adjacent ranges from the checksum
/// of each and the size of the second, in a few microseconds.
///
/// \code
/// // given: std::span<const std::byte> first, std::span<const std::byte> second
/// const std::uint32_t both = io::crc32c_joined(io::crc32c(first), io::crc32c(second), second.size());
/// \endcode
std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/checksum.ipp>
#endif
