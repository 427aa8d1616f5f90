#pragma once

#include <reef/comm/detail/collective_scope.hpp>
#include <reef/comm/detail/ranks.hpp>
#include <reef/comm/functions.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

REEF_INLINE Group members_of(const Progress& progress, std::string_view name, int root,
                             const std::optional<Group>& group) {
  if (group) {
    group->validate();
    check_member(name, *group, progress.rank(), progress.size());
  }
  Group members = group ? *group : all_of(progress.size());
  if (members.has(root)) return members;
  throw OptionError("reef::comm: the root of '", name, "' is rank ", root, ".\n  why: ",
                    group ? concat("the group '", group->name, "' has ") : "the job has ",
                    name_ranks(members.members), ".\n  fix: one of these.");
}

}  // namespace detail

REEF_INLINE void barrier(Progress& progress, std::string name, std::optional<Group> group) {
  const int ranks = group ? group->size() : progress.size();
  std::vector<float> one(static_cast<std::size_t>(ranks), 0.0F);
  all_reduce(progress, std::move(name), std::span(one), std::move(group));
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
