#pragma once

#include <algorithm>
#include <string>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/average/detail/round_watch.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE std::optional<RoundWatch::Finding> RoundWatch::look_at_start(const core::Peer& peer,
                                                                         const Deadlines& deadlines, Seconds now) {
  const core::detail::PeerMemory& memory = peer.memory();
  const std::int64_t first = memory.options.first_members;
  if (!peer.state().genesis || peer.state().epoch > 0 || first < 2) {
    without_members_.reset();
    return std::nullopt;
  }
  if (!without_members_) without_members_ = now;
  if (deadlines.start <= 0 || now - *without_members_ <= deadlines.start) return std::nullopt;
  std::string others;
  for (const auto& [id, presence] : memory.presences) {
    if (presence.joins) others += concat(", ", to_text(id), memory.detector.suspects(id, now) ? " (not heard)" : "");
  }
  return Finding{concat("the first round waits for ", first, " peers, and after ", deadlines.start, " s there are ",
                        to_text(peer.id()), others,
                        ".\n  why: the others have not been started, or do not reach the log or these peers.\n"
                        "  fix: start them; or a job of fewer first members, or a longer Deadlines::start"),
                 true};
}

REEF_INLINE std::optional<RoundWatch::Finding> RoundWatch::look(const core::Peer& peer, const Deadlines& deadlines,
                                                                Seconds now) {
  const std::int64_t round = peer.state().round();
  if (const std::optional<Finding> finding = look_at_start(peer, deadlines, now)) return finding;
  if (!peer.is_without_donor(now)) {
    without_donor_.reset();
  } else {
    if (!without_donor_) without_donor_ = now;
    const Seconds longest = (std::max)(deadlines.join, 4 * deadlines.suspect);
    if (deadlines.join > 0 && now - *without_donor_ > longest) {
      return Finding{concat(to_text(peer.id()), " has waited ", longest, " s for the weights after round ", round,
                            ", which nobody has who is heard.\n  why: all who had them have ended, or are not reached "
                            "from here.\n  fix: start a peer that can reach one; reef-swarm replay computes the "
                            "weights again, reef-swarm rollback --rounds 0 begins anew"),
                     true};
    }
  }
  const Seconds takes = peer.round_takes(now);
  const bool is_over = deadlines.job > 0 && takes > deadlines.job;
  if (!is_over && (takes <= deadlines.round || reported_ == round)) return std::nullopt;
  reported_ = round;
  const std::string what = concat("round ", round, " is not committed after ", static_cast<std::int64_t>(takes), " s; ",
                                  to_text(peer.id()), " waits ", peer.waits_for(now));
  return Finding{is_over ? what + ".\n  fix: a longer Deadlines::job, or what it waits for." : what, is_over};
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
