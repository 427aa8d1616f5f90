#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/core/group.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

class WindowChannel;

/// The ranks that meet in collectives of one queue, all of them or a group, and what the queue keeps of that:
/// each group has its own tags, numbers and channel, so that groups need not submit as many.
struct CollectiveScope {
  Group group;        ///< of all ranks: without a name
  int position;       ///< of this rank
  std::uint64_t channel;  ///< of the first of two sorts of messages; the other's is the next number
  std::string place;  ///< place_of it
  // Progress thread only.
  std::uint32_t collectives = 0;
  WindowChannel* window = nullptr;
};

/// All ranks, as a group without a name.
Group all_of(int ranks);

/// The same number on every rank for the queue and the groups of that name; no name: all ranks.
std::uint64_t meeting_id(std::string_view queue, std::string_view group);

/// "queue 'reduce'", "queue 'reduce', group 'stage 0'": where a collective is, for texts.
std::string place_of(std::string_view queue, std::string_view group);

/// Throws OptionError unless this rank and `ranks` ranks in all allow it to take part in a collective of
/// the group.
void check_member(std::string_view task, const Group& group, int rank, int ranks);

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/collective_scope.ipp>
#endif
