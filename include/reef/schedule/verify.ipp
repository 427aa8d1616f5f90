#pragma once

#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/rendezvous_graph.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/detail/value_checker.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/verify.hpp>

namespace reef::inline v0::schedule {

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

REEF_INLINE void verify(std::span<const Program> programs, const Limits& limits) {
  detail::check_structure(programs);
  std::vector<Dependencies> dependencies;
  for (const Program& program : programs) {
    const Placement placement = place(program);
    detail::ValueChecker(program, placement).run();
    detail::check_memory(program, placement, limits.device_bytes, Place::device);
    detail::check_memory(program, placement, limits.host_bytes, Place::host);
    dependencies.push_back(derive(program, placement));
  }
  detail::RendezvousGraph(programs, dependencies).check();
}

}  // namespace reef::inline v0::schedule
