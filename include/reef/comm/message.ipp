#pragma once

#include <array>

#include <reef/comm/message.hpp>
#include <reef/core/inline.hpp>

namespace reef::inline v0::comm {

REEF_INLINE std::uint64_t operation_id(Kind kind, std::string_view name, const Group& group) {
  Hash members;
  members.add(group.name);
  for (const int rank : group.members) members.add(rank);
  return (operation_id(kind, name) >> 32 << 32) | (detail::mix(members.value()) >> 32);
}

REEF_INLINE std::string describe(Kind kind, std::string_view name, std::uint64_t sequence) {
  std::string text{name_of(kind)};
  text.append(" '").append(name).append("' number ").append(std::to_string(sequence));
  return text;
}

}  // namespace reef::inline v0::comm
