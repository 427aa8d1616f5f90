#pragma once

#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

static_assert(std::endian::native == std::endian::little,
              "reef::trace: recordings travel in little-endian order.");

namespace detail {

template <class T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace detail

/// Encodes a trace recording as bytes that another rank can decode: names, tracks, spans and a CRC-32C.
std::vector<std::byte> encode(const Recording& recording);

/// Decodes a trace recording from the bytes of `encode`. Throws DecodeError for any other bytes: lengths, indices,
/// activities, times and the checksum are all checked.
Recording decode(std::span<const std::byte> bytes);

/// Moves the times of a trace recording to another rank's clock: `offset` is that clock minus the recording's own, in
/// seconds.
///
/// \code
/// // given: const trace::Recording& recording, Seconds offset
/// const std::vector<std::byte> bytes = trace::encode(recording);  // to send
/// trace::Recording received = trace::decode(bytes);
/// trace::shift(received, offset);  // comm::clock_offset
/// \endcode
void shift(Recording& recording, Seconds offset);

}  // namespace trace
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trace/encoding.ipp>
#endif
