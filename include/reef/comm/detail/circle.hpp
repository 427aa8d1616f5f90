#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/core/group.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>

namespace reef::inline v0::comm::detail {

class WindowChannel;

/// The ranks that meet in collectives of one queue, all of them or a group, and what the queue keeps of that:
/// each group has its own tags, numbers and channel, so that groups need not submit as many.
struct Circle {
  Group group;        ///< of all ranks: without a name
  int position;       ///< of this rank
  int tag;            ///< the first of two
  std::string place;  ///< place_of it
  // Progress thread only.
  std::uint32_t collectives = 0;
  WindowChannel* window = nullptr;
};

/// All ranks, as a group without a name.
inline Group all_of(int ranks) {
  Group all;
  all.members.resize(static_cast<std::size_t>(ranks));
  std::iota(all.members.begin(), all.members.end(), 0);
  return all;
}

/// The same number on every rank for the queue and the groups of that name; no name: all ranks.
inline std::uint64_t meeting_id(std::string_view queue, std::string_view group) {
  Hash hash;
  hash.add(queue);
  if (!group.empty()) hash.add(group);
  return hash.value();
}

/// "queue 'reduce'", "queue 'reduce', group 'stage 0'": where a collective is, for texts.
inline std::string place_of(std::string_view queue, std::string_view group) {
  return group.empty() ? concat("queue '", queue, "'")
                       : concat("queue '", queue, "', group '", group, "'");
}

/// Throws OptionError unless this rank and `ranks` ranks in all allow it to take part in a collective of
/// the group.
inline void check_member(std::string_view task, const Group& group, int rank, int ranks) {
  if (group.members.back() >= ranks) {
    throw OptionError("reef::comm: the group '", group.name, "' of '", task, "' has rank ",
                      group.members.back(), ".\n  why: there are ", ranks,
                      " ranks, numbered from 0.\n  fix: members from 0 to ", ranks - 1, ".");
  }
  if (group.has(rank)) return;
  throw OptionError("reef::comm: '", task, "' is of the group '", group.name, "', in which rank ",
                    rank, " is no member.\n  fix: only its members submit it.");
}

}  // namespace reef::inline v0::comm::detail
