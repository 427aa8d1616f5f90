#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/run/step_plan.hpp>

/// \file
/// When the fragments of the weights take an outer step: arithmetic on the counts of steps.

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// The steps after which fragment f is due for the first time; then every H steps again.
inline std::int64_t first_due(const run::OuterSchedule& outer, int fragment) {
  return std::int64_t{outer.every} * (fragment + 1) / outer.fragments;
}

/// An outer step that follows a step is due once that step counts.
inline std::int64_t counted(const run::OuterSchedule& outer, std::int64_t committed) {
  return committed + (outer.overlap == run::OuterSchedule::Overlap::none ? 1 : 0);
}

/// Of eager rounds: how many steps after those that it takes fragment f leaves.
inline std::int64_t leaves_after(const run::OuterSchedule& outer, int fragment) {
  return std::int64_t{outer.every} * fragment / outer.fragments;
}

/// Which outer step of the fragment it is, from 1, that the step after `committed` ones takes.
inline std::int64_t outer_step(const run::OuterSchedule& outer, int fragment,
                               std::int64_t committed) {
  if (outer.overlap == run::OuterSchedule::Overlap::eager) return committed / outer.every;
  return (counted(outer, committed) - first_due(outer, fragment)) / outer.every + 1;
}

/// Which program the step after `committed` ones runs: f + 1 has the outer step of fragment f, 0
/// none. `began`: after how many steps the ranks last began at the same weights.
///
///     none, mix   f is due after first_due(f) steps, and every H again
///     eager       all are taken after every H steps, and f leaves floor(H f / F) steps later
inline int variant_after(const run::OuterSchedule& outer, std::int64_t began,
                         std::int64_t committed) {
  const std::int64_t every = outer.every;
  const std::int64_t now = counted(outer, committed);
  const bool eager = outer.overlap == run::OuterSchedule::Overlap::eager;
  const std::int64_t taken = eager ? now / every * every : now;
  if (taken <= began) return 0;
  for (int f = 0; f < outer.fragments; ++f) {
    const std::int64_t due = eager ? taken + leaves_after(outer, f) : first_due(outer, f);
    if (now >= due && (now - due) % every == 0) return f + 1;
  }
  return 0;
}

/// After how many steps the weights were those that fragment f's last outer step within `steps`
/// steps brought to all ranks.
inline std::int64_t last_synchronised(const run::OuterSchedule& outer, int fragment,
                                      std::int64_t began, std::int64_t steps) {
  const bool eager = outer.overlap == run::OuterSchedule::Overlap::eager;
  const std::int64_t late = eager ? leaves_after(outer, fragment) : 0;
  const std::int64_t first = eager ? outer.every : first_due(outer, fragment);
  const std::int64_t since = counted(outer, steps - 1) - late - first;
  return since < 0 ? began : (std::max)(began, first + since / outer.every * outer.every);
}

/// How many of the last of `steps` steps some outer weights lack: those since the fragment whose
/// last outer step is the longest ago.
inline std::int64_t unsynchronised(const run::OuterSchedule& outer, std::int64_t began,
                                   std::int64_t steps) {
  std::int64_t oldest = steps;
  for (int f = 0; f < outer.fragments; ++f) {
    oldest = (std::min)(oldest, last_synchronised(outer, f, began, steps));
  }
  return steps - oldest;
}

/// The fewest steps above `steps` of which fewer are unsynchronised; `steps` where there are none,
/// as some always are where outer steps overlap or there are several fragments. A round has all
/// numbers that come again, and those before the first of them only rise.
inline std::int64_t longer_run(const run::OuterSchedule& outer, std::int64_t began,
                               std::int64_t steps) {
  const std::int64_t lost = unsynchronised(outer, began, steps);
  for (std::int64_t more = steps + 1; more < steps + outer.every; ++more) {
    if (unsynchronised(outer, began, more) < lost) return more;
  }
  return steps;
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
