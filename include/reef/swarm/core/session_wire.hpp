#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <reef/swarm/core/session_message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Returns the bytes of a message of a session: the length of a JSON text in 4 bytes, little-endian, the text, and
/// behind it the rows, if the message has any.
///
/// \code
/// const std::vector<std::byte> bytes = swarm::to_bytes(swarm::CloseSession{"s"});
/// const swarm::SessionMessage message = swarm::session_message_of(bytes);
/// \endcode
std::vector<std::byte> to_bytes(const SessionMessage& message);

/// Returns the message that bytes from another process say. Throws DecodeError, naming what is wrong, for bytes that
/// are none.
SessionMessage session_message_of(std::span<const std::byte> bytes);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/session_wire.ipp>
#endif
