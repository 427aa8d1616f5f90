#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <reef/core/language.hpp>
#include <reef/swarm/core/membership.hpp>
#include <reef/swarm/core/message.hpp>
#include <reef/swarm/net/frame.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Returns the frame of a message between peers.
Frame frame_of(const Message& message);

/// Returns the message of a frame. Throws DecodeError for one that is no message of peers.
Message message_of(const Frame& frame);

/// Returns a presence as the text that stands beside the log, and the presence of such a text; nothing of any other
/// text, since it is only a hint.
std::string text_of(const PeerPresence& presence);
std::optional<PeerPresence> presence_from_text(std::string_view text);

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/detail/peer_frames.ipp>
#endif
