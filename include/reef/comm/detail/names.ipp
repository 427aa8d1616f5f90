#pragma once

#include <utility>

#include <reef/comm/detail/names.hpp>
#include <reef/comm/message.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE std::string Names::text(std::uint64_t operation) {
  const std::scoped_lock lock(mutex_);
  const auto found = texts_.find(operation);
  return found != texts_.end()
             ? found->second
             : concat("an operation that this rank never submitted (id ", operation, ")");
}

REEF_INLINE void Names::remember(std::uint64_t operation, Kind kind, std::string_view name,
                                 std::string_view group) {
  const std::scoped_lock lock(mutex_);
  if (texts_.find(operation) != texts_.end()) return;
  std::string text = concat(role_of(kind), " '", name, "'");
  if (!group.empty()) text += concat(" of group '", group, "'");
  texts_.emplace(operation, std::move(text));
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
