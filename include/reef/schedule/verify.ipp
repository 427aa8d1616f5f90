#pragma once

#include <cstddef>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/skeleton_graph.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/detail/value_checker.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/skeleton.hpp>
#include <reef/schedule/skeleton_of.hpp>
#include <reef/schedule/verify.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

namespace detail {

inline void check_memory(const Program& program, const Placement& placement, Bytes limit,
                         Place place) {
  const Bytes needed = placement.arena_bytes(place);
  if (limit == 0 || needed <= limit) return;
  const Storage* largest = nullptr;
  for (const Storage& storage : program.storages) {
    if (storage.place != place || storage.parent != no_storage) continue;
    if (largest == nullptr || storage.bytes > largest->bytes) largest = &storage;
  }
  throw ScheduleError("reef::schedule::verify: rank ", program.rank, " needs ",
                      format_bytes(needed), " of ", (place == Place::device ? "device" : "host"),
                      " memory, of which there are ", format_bytes(limit),
                      ". The largest storage is ", largest->name, " with ",
                      format_bytes(largest->bytes),
                      ".\n  fix: a smaller micro-batch or model, or a policy that swaps.");
}

}  // namespace detail

REEF_INLINE void verify_rank(const Program& program, const Placement& placement, int ranks) {
  detail::StructureChecker(program, ranks).run();
  detail::ValueChecker(program, placement).run();
}

REEF_INLINE void verify_memory(const Program& program, const Placement& placement,
                               const Limits& limits) {
  detail::check_memory(program, placement, limits.device_bytes, Place::device);
  detail::check_memory(program, placement, limits.host_bytes, Place::host);
}

REEF_INLINE void verify_together(std::span<const Skeleton> skeletons) {
  for (std::size_t r = 0; r < skeletons.size(); ++r) {
    if (skeletons[r].rank == static_cast<int>(r)) continue;
    throw ScheduleError("reef::schedule::verify_together: skeleton ", r, " is one of rank ",
                        skeletons[r].rank, ".\n  fix: one of each rank, by rank.");
  }
  detail::SkeletonGraph(skeletons).validate();
}

REEF_INLINE void (verify)(std::span<const Program> programs, const Limits& limits) {
  detail::check_structure(programs);
  std::vector<Skeleton> skeletons(programs.size());
  for (const Program& program : programs) {
    const Placement placement = place(program);
    detail::ValueChecker(program, placement).run();
    verify_memory(program, placement, limits);
    skeletons[static_cast<std::size_t>(program.rank)] =
        skeleton_of(program, derive(program, placement));
  }
  verify_together(skeletons);
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
