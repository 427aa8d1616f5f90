#pragma once

#include <algorithm>
#include <cstddef>

#include <reef/core/group.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {

REEF_INLINE int Group::position_of(int rank) const {
  const auto place = std::lower_bound(members.begin(), members.end(), rank);
  return place != members.end() && *place == rank ? static_cast<int>(place - members.begin()) : -1;
}

REEF_INLINE void Group::validate() const {
  if (name.empty()) {
    throw OptionError(
        "reef::Group: a group has no name.\n  why: its ranks find each other by it.\n"
        "  fix: the same name on all of them, such as 'stage 0'.");
  }
  const auto refuse = [this](const auto&... why) {
    throw OptionError("reef::Group: the members of '", name, "' ", why...,
                      ".\n  fix: ranks in ascending order, each once, numbered from 0.");
  };
  if (members.empty()) refuse("are none");
  if (members.front() < 0) refuse("begin with rank ", members.front());
  for (std::size_t i = 1; i < members.size(); ++i) {
    if (members[i] <= members[i - 1]) {
      refuse("have rank ", members[i], " after rank ", members[i - 1]);
    }
  }
}

}  // namespace v0
}  // namespace reef
