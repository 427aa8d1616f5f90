#pragma once

#include <reef/comm/detail/claims.hpp>
#include <reef/comm/detail/wire.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE void ClaimDesk::open(Wire& wire) {
  if (wire_ != nullptr) return;
  wire_ = &wire;
  for (std::uint64_t rank = 1; rank < peers_.size(); ++rank) listen(rank);
}

REEF_INLINE void ClaimDesk::listen(std::uint64_t rank) {
  Peer& peer = peers_[rank];
  wire_->receive(*this, 2 * rank + claim, static_cast<int>(rank), operation_, Kind::claim,
                 header(peer, 0), peer.claim, nullptr);
}

REEF_INLINE void ClaimDesk::delivered(std::uint64_t token) {
  const std::uint64_t rank = token / 2;
  Peer& peer = peers_[rank];
  if (token % 2 == claim) {
    peer.answer = {header(peer, sizeof peer.answer.number), take()};
    wire_->send(*this, 2 * rank + answer, static_cast<int>(rank), operation_, Kind::claim,
                peer.answer.header, &peer.answer.number);
  } else {
    ++peer.claims;
    listen(rank);
  }
}

REEF_INLINE void ClaimTask::start(const Station& station) {
  pending_ = 2;
  claim_ = header(station, 0, 0);
  station.wire.receive(*this, 0, desk, station.channel, kind(),
                       header(station, 0, sizeof answer_.number), answer_.header, &answer_.number);
  station.wire.send(*this, 1, desk, station.channel, kind(), claim_, nullptr);
}

REEF_INLINE void ClaimTask::delivered(std::uint64_t) {
  --pending_;
  moved_ = true;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
