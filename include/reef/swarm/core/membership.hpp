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

/// What a peer writes beside the log under a lease, for others to read: that it is there, where, and whom it hears. A
/// hint: where it is wrong, time is lost and nothing else.
struct PeerPresence {
  Member who{};
  std::vector<PeerId> reach{};  ///< the peers that it hears, ascending, itself left out
  bool joins = false;           ///< true: it is no member, and asks to become one
  std::int64_t applied = 0;     ///< rounds that its weights contain
  std::int64_t epoch = 0;       ///< the newest view that it has read

  friend bool operator==(const PeerPresence&, const PeerPresence&) = default;
};

/// Returns the largest set of peers that hear each other; of several as large, the one with the lowest ids.
///
/// | cost | exponential in the number of pairs that do not hear each other; a few microseconds for those |
/// |      | of one failed peer or one partition among 64                                                 |
std::vector<PeerId> largest_mutual_set(std::span<const PeerPresence> present);

/// Returns the members that the next view should have after `rounds` committed rounds, or nothing if the view stays,
/// or none can be known to be the right one yet.
///
///     S = largest_mutual_set(the members that are present)
///     next view = S and each peer that asks to join, where all of S and the others who join hear it, and it them
///
/// | decides | if no other set of members can be larger than S, where members that are present and hear nobody of |
/// |         | S, but have not said so yet, count as one set that hears itself                                    |
/// | members | those of the last view; if none of them is present, all who ask to join                            |
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
