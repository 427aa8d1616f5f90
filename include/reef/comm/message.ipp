#pragma once

#include <algorithm>
#include <array>

#include <reef/comm/message.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/checksum.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE std::uint64_t operation_id(Kind kind, std::string_view name, const Group& group) {
  Hash members;
  members.add(group.name);
  for (const int rank : group.members) members.add(rank);
  return (operation_id(kind, name) >> 32 << 32) | (detail::mix(members.value()) >> 32);
}

REEF_INLINE std::string describe(Kind kind, std::string_view name, std::uint64_t sequence) {
  std::string text{name_of(kind)};
  text.append(" '").append(name).append("' number ").append(std::to_string(sequence));
  return text;
}

REEF_INLINE std::uint32_t seal_of(const Header& header) {
  return io::crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, seal)));
}

REEF_INLINE Decoded decode_header(std::span<const std::byte> bytes) {
  Decoded decoded;
  Header header;
  // What is missing is as in a header that says nothing.
  std::copy_n(bytes.begin(), std::min<std::size_t>(bytes.size(), header_bytes),
              std::as_writable_bytes(std::span(&header, 1)).begin());
  if (bytes.size() < sizeof header.magic || !header.is_message()) {
    decoded.fault = Fault::foreign;
  } else if (bytes.size() > offsetof(Header, version) &&
             header.version != Header::current_version) {
    decoded.fault = Fault::version;
    decoded.header.version = header.version;
  } else if (bytes.size() < header_bytes) {
    decoded.fault = Fault::truncated;
  } else if (header.seal != seal_of(header)) {
    decoded.fault = Fault::header;
  } else {
    decoded.header = header;
  }
  return decoded;
}

REEF_INLINE Fault examine(const Header& expected, std::span<const std::byte> head,
                          std::span<const std::byte> payload, bool checksummed, Length length) {
  const auto [found, fault] = decode_header(head);
  if (fault != Fault::none) return fault;
  if (payload.size() != found.bytes) {
    return payload.size() < found.bytes ? Fault::truncated : Fault::longer;
  }
  const bool fits = length == Length::at_most ? found.bytes <= expected.bytes : found.bytes == expected.bytes;
  const bool same = found.operation == expected.operation && found.sequence == expected.sequence &&
                    found.codec == expected.codec && fits &&
                    found.piece == expected.piece && found.origin == expected.origin;
  if (!same) return Fault::unexpected;
  const std::uint32_t checksum = checksummed ? io::crc32c(payload) : 0;
  return found.checksum == checksum ? Fault::none : Fault::payload;
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
