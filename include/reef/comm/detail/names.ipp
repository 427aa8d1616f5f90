#pragma once

#include <utility>

#include <reef/comm/detail/circle.hpp>
#include <reef/comm/detail/names.hpp>
#include <reef/comm/message.hpp>
#include <reef/core/inline.hpp>

namespace reef::inline v0::comm::detail {

REEF_INLINE int largest_tag() {
  int* largest = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found);  // a split communicator does not have it
  return found != 0 ? *largest : 32767;
}

REEF_INLINE int Names::transfer(std::uint64_t operation, Kind kind, std::string_view name) {
  const std::scoped_lock lock(mutex_);
  const int tag = static_cast<int>(mix(operation) % (2 * tags_));
  claim(tag, operation, name);
  remember(operation, kind, name);
  return tag;
}

REEF_INLINE void Names::collective(std::uint64_t operation, Kind kind, std::string_view name,
                                   std::string_view group) {
  const std::scoped_lock lock(mutex_);
  remember(operation, kind, name, group);
}

REEF_INLINE int Names::queue(std::string_view name, std::string_view group) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t meeting = meeting_id(name, group);
  const int tag = static_cast<int>(2 * tags_ + 2 * (mix(meeting) % (tags_ - 1)));
  claim(tag, meeting, group.empty() ? name : group);
  return tag;
}

REEF_INLINE std::string Names::text(std::uint64_t operation) {
  const std::scoped_lock lock(mutex_);
  const auto found = texts_.find(operation);
  return found != texts_.end()
             ? found->second
             : concat("an operation that this rank never submitted (id ", operation, ")");
}

REEF_INLINE void Names::claim(int tag, std::uint64_t owner, std::string_view name) {
  const auto [place, fresh] = owners_.try_emplace(tag, owner);
  if (fresh || place->second == owner) return;
  throw OptionError("reef::comm: '", name,
                    "' gets the same MPI tag as another name.\n  why: this MPI has only ",
                    4 * tags_,
                    " tags, and names share them by their hash.\n"
                    "  fix: change the name a little.");
}

REEF_INLINE void Names::remember(std::uint64_t operation, Kind kind, std::string_view name,
                                 std::string_view group) {
  if (texts_.find(operation) != texts_.end()) return;
  std::string text = concat(role_of(kind), " '", name, "'");
  if (!group.empty()) text += concat(" of group '", group, "'");
  texts_.emplace(operation, std::move(text));
}

}  // namespace reef::inline v0::comm::detail
