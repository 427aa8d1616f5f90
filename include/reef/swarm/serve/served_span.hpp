#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <reef/swarm/core/peer_id.hpp>
#include <reef/swarm/core/session_message.hpp>
#include <reef/swarm/core/session_router.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// What a server says of itself in the store, under a lease: who it is, where, which blocks it computes, and how fast.
///
/// \code
/// const swarm::ServedSpan span{{"a", 7}, "127.0.0.1:4200", "m", {0, 4}, "0123456789abcdef", 16384};
/// const bool same = swarm::served_span_of(swarm::text_of(span)) == span;  // true
/// \endcode
struct ServedSpan {
  PeerId id{};
  std::string address{};   ///< "ADDRESS:PORT" at which others reach it
  std::string model{};     ///< what is served: a digest of the weights, and the form in which they are
  BlockRange blocks{};
  std::string numerics{};  ///< its numerics class: servers of one class compute the same bits
  std::int64_t positions = 0;  ///< positions of the cache of each block, of all sessions
  core::ServerLoad load{};     ///< its speed and its room now, with round-trip times to 16 servers at most
  bool draining = false;       ///< true: it ends soon, and takes no new sessions

  friend bool operator==(const ServedSpan&, const ServedSpan&) = default;
};

/// Returns the JSON text that stands in the store.
std::string text_of(const ServedSpan& span);

/// Returns what a text from the store says; nothing if the text is of something else than a server.
std::optional<ServedSpan> served_span_of(std::string_view text);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/serve/served_span.ipp>
#endif
