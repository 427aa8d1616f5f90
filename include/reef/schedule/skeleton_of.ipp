#pragma once

#include <reef/core/inline.hpp>
#include <reef/schedule/detail/skeleton_builder.hpp>
#include <reef/schedule/skeleton_of.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

REEF_INLINE Skeleton skeleton_of(const Program& program, const Dependencies& dependencies) {
  return detail::SkeletonBuilder(program, dependencies).build();
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
