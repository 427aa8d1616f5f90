#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/membership.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

inline bool hears(const PeerPresence& a, const PeerPresence& b) {
  return std::binary_search(a.reach.begin(), a.reach.end(), b.who.id);
}

inline bool hear_each_other(const PeerPresence& a, const PeerPresence& b) {
  return a.who.id == b.who.id || (hears(a, b) && hears(b, a));
}

/// A search for the largest set whose members are pairwise related, by taking or leaving one peer that lacks a
/// relation.
class LargestSet {
public:
  explicit LargestSet(std::vector<std::vector<bool>> related) : related_(std::move(related)) {
    std::vector<std::size_t> all(related_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    search(std::move(all));
  }

  /// Returns the positions, ascending.
  [[nodiscard]] const std::vector<std::size_t>& best() const { return best_; }

private:
  void search(std::vector<std::size_t> left) {
    if (left.size() < best_.size()) return;
    // The first pair without a relation: one of the two is left out.
    for (std::size_t a = 0; a < left.size(); ++a) {
      for (std::size_t b = a + 1; b < left.size(); ++b) {
        if (related_[left[a]][left[b]]) continue;
        std::vector<std::size_t> without = left;
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(b));
        search(std::move(without));
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(a));
        search(std::move(left));
        return;
      }
    }
    if (left.size() > best_.size() || left < best_) best_ = std::move(left);
  }

  std::vector<std::vector<bool>> related_;
  std::vector<std::size_t> best_;
};

}  // namespace detail

REEF_INLINE std::vector<PeerId> largest_mutual_set(std::span<const PeerPresence> present) {
  std::vector<const PeerPresence*> sorted;
  for (const PeerPresence& presence : present) sorted.push_back(&presence);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->who.id < b->who.id; });
  std::vector<std::vector<bool>> related(sorted.size(), std::vector<bool>(sorted.size()));
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = 0; j < sorted.size(); ++j) related[i][j] = detail::hear_each_other(*sorted[i], *sorted[j]);
  }
  std::vector<PeerId> ids;
  const detail::LargestSet largest(std::move(related));
  for (const std::size_t at : largest.best()) ids.push_back(sorted[at]->who.id);
  return ids;
}

REEF_INLINE std::optional<std::vector<Member>> next_view(std::span<const Member> members,
                                                         std::span<const PeerPresence> present, std::int64_t rounds) {
  const auto is_member = [&](const PeerPresence& presence) {
    return std::any_of(members.begin(), members.end(),
                       [&](const Member& member) { return member.id == presence.who.id; });
  };
  const bool nobody = std::none_of(present.begin(), present.end(), is_member);
  std::vector<PeerPresence> here;     // members that are present
  std::vector<PeerPresence> joining;  // others that ask to join, ascending
  for (const PeerPresence& presence : present) {
    if (is_member(presence) || (nobody && presence.joins && presence.applied == rounds)) {
      here.push_back(presence);
    } else if (presence.joins && presence.applied == rounds) {
      joining.push_back(presence);
    }
  }
  std::vector<PeerId> chosen = largest_mutual_set(here);
  if (chosen.empty()) return std::nullopt;
  const auto is_chosen = [&](const PeerId& id) { return std::binary_search(chosen.begin(), chosen.end(), id); };

  // Those outside of the set that still say they hear one of it may have fallen silent: together they are one set at
  // most.
  std::size_t others = 0;
  for (const PeerPresence& presence : here) others += is_chosen(presence.who.id) ? 0 : 1;
  if (others > chosen.size()) return std::nullopt;
  if (others == chosen.size() && others > 0) {
    const auto lowest = std::min_element(
        here.begin(), here.end(), [](const PeerPresence& a, const PeerPresence& b) { return a.who.id < b.who.id; });
    if (!is_chosen(lowest->who.id)) return std::nullopt;
  }

  std::vector<const PeerPresence*> next;
  for (const PeerPresence& presence : here) {
    if (is_chosen(presence.who.id)) next.push_back(&presence);
  }
  std::sort(joining.begin(), joining.end(),
            [](const PeerPresence& a, const PeerPresence& b) { return a.who.id < b.who.id; });
  for (const PeerPresence& presence : joining) {
    const auto fits = [&](const PeerPresence* other) {
      return detail::hear_each_other(*other, presence) && other->who.id.name != presence.who.id.name;
    };
    if (std::all_of(next.begin(), next.end(), fits)) next.push_back(&presence);
  }
  std::sort(next.begin(), next.end(),
            [](const PeerPresence* a, const PeerPresence* b) { return a->who.id < b->who.id; });
  std::vector<Member> view;
  for (const PeerPresence* const presence : next) view.push_back(presence->who);
  const auto same = [](const Member& a, const Member& b) { return a.id == b.id; };
  if (std::equal(view.begin(), view.end(), members.begin(), members.end(), same)) return std::nullopt;
  return view;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
