#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/core/language.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/peer_id.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// What a peer publishes beside the log under a lease: that it is alive, its address, and which peers it hears. A hint:
/// wrong content costs time and nothing else.
struct PeerPresence {
  Member who{};
  std::vector<PeerId> reach{};  ///< peers that this one hears, ascending, without itself
  bool joins = false;           ///< true: the peer is no member, and asks to become one
  std::int64_t applied = 0;     ///< number of rounds that the peer's weights contain
  std::int64_t epoch = 0;       ///< number of the newest membership that the peer has read

  friend bool operator==(const PeerPresence&, const PeerPresence&) = default;
};

/// Returns the largest set of peers that all hear each other; of several as large, the one with the lowest ids.
///
/// | cost | exponential in the number of pairs that do not hear each other; a few microseconds for those |
/// |      | of one failed peer or one partition among 64                                                 |
std::vector<PeerId> largest_mutual_set(std::span<const PeerPresence> present);

/// Returns the members that the job should have next, after `rounds` committed rounds; nothing if the members stay, or
/// if no set can be known to be the right one yet.
///
///     S = largest_mutual_set(the members that are present)
///     next view = S and each peer that asks to join, where all of S and the others who join hear it, and it them
///
/// | decides | if no other set of members can be larger than S, where members that are present and hear nobody of |
/// |         | S, but have not said so yet, count as one set that hears itself                                    |
/// | members | those by the last view entry; if none of them is present, all who ask to join                      |
/// | joins   | only who has the weights after all committed rounds                                                |
///
/// \code
/// // given: std::span<const swarm::Member> members, std::span<const swarm::PeerPresence> present
/// const std::optional<std::vector<swarm::Member>> next = swarm::next_view(members, present, 12);
/// \endcode
std::optional<std::vector<Member>> next_view(std::span<const Member> members, std::span<const PeerPresence> present,
                                             std::int64_t rounds);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/membership.ipp>
#endif
