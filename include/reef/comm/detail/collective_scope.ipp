#pragma once

#include <cstddef>
#include <numeric>

#include <reef/comm/detail/collective_scope.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE Group all_of(int ranks) {
  Group all;
  all.members.resize(static_cast<std::size_t>(ranks));
  std::iota(all.members.begin(), all.members.end(), 0);
  return all;
}

REEF_INLINE std::uint64_t meeting_id(std::string_view queue, std::string_view group) {
  Hash hash;
  hash.add(queue);
  if (!group.empty()) hash.add(group);
  return hash.value();
}

REEF_INLINE std::string place_of(std::string_view queue, std::string_view group) {
  return group.empty() ? concat("queue '", queue, "'")
                       : concat("queue '", queue, "', group '", group, "'");
}

REEF_INLINE void check_member(std::string_view task, const Group& group, int rank, int ranks) {
  if (group.members.back() >= ranks) {
    throw OptionError("reef::comm: the group '", group.name, "' of '", task, "' has rank ",
                      group.members.back(), ".\n  why: there are ", ranks,
                      " ranks, numbered from 0.\n  fix: members from 0 to ", ranks - 1, ".");
  }
  if (group.has(rank)) return;
  throw OptionError("reef::comm: '", task, "' is of the group '", group.name, "', in which rank ",
                    rank, " is no member.\n  fix: only its members submit it.");
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
