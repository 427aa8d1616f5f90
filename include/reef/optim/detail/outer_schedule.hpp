#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/run/step_plan.hpp>

/// \file
/// When the fragments of the weights are exchanged: arithmetic on the counts of steps.

namespace reef::inline v0::optim::detail {

/// The steps after which fragment f is due for the first time; then every H steps again.
inline std::int64_t first_due(const run::Exchange& exchange, int fragment) {
  return std::int64_t{exchange.every} * (fragment + 1) / exchange.fragments;
}

/// A fragment that is exchanged after a step is due once that one counts.
inline std::int64_t counted(const run::Exchange& exchange, std::int64_t committed) {
  return committed + (exchange.overlap == run::Exchange::Overlap::none ? 1 : 0);
}

/// Of eager rounds: how many steps after those that it takes fragment f leaves.
inline std::int64_t leaves_after(const run::Exchange& exchange, int fragment) {
  return std::int64_t{exchange.every} * fragment / exchange.fragments;
}

/// Which outer step of the fragment it is, from 1, that the step after `committed` ones takes.
inline std::int64_t outer_step(const run::Exchange& exchange, int fragment,
                               std::int64_t committed) {
  if (exchange.overlap == run::Exchange::Overlap::eager) return committed / exchange.every;
  return (counted(exchange, committed) - first_due(exchange, fragment)) / exchange.every + 1;
}

/// Which program the step after `committed` ones runs: f + 1 exchanges fragment f, 0 nothing. `began`:
/// after how many steps the ranks last began at the same weights.
///
///     none, mix   f is due after first_due(f) steps, and every H again
///     eager       all are taken after every H steps, and f leaves floor(H f / F) steps later
inline int variant_after(const run::Exchange& exchange, std::int64_t began,
                         std::int64_t committed) {
  const std::int64_t every = exchange.every;
  const std::int64_t now = counted(exchange, committed);
  const bool eager = exchange.overlap == run::Exchange::Overlap::eager;
  const std::int64_t taken = eager ? now / every * every : now;
  if (taken <= began) return 0;
  for (int f = 0; f < exchange.fragments; ++f) {
    const std::int64_t due = eager ? taken + leaves_after(exchange, f) : first_due(exchange, f);
    if (now >= due && (now - due) % every == 0) return f + 1;
  }
  return 0;
}

/// After how many steps the weights were those that fragment f's last exchange within `steps` steps
/// brought to all ranks.
inline std::int64_t exchanged(const run::Exchange& exchange, int fragment, std::int64_t began,
                              std::int64_t steps) {
  const bool eager = exchange.overlap == run::Exchange::Overlap::eager;
  const std::int64_t late = eager ? leaves_after(exchange, fragment) : 0;
  const std::int64_t first = eager ? exchange.every : first_due(exchange, fragment);
  const std::int64_t since = counted(exchange, steps - 1) - late - first;
  return since < 0 ? began : std::max(began, first + since / exchange.every * exchange.every);
}

/// How many of the last of `steps` steps not all outer weights have: those since the fragment whose
/// last exchange is the longest ago.
inline std::int64_t unexchanged(const run::Exchange& exchange, std::int64_t began,
                                std::int64_t steps) {
  std::int64_t oldest = steps;
  for (int f = 0; f < exchange.fragments; ++f) {
    oldest = std::min(oldest, exchanged(exchange, f, began, steps));
  }
  return steps - oldest;
}

/// The fewest steps above `steps` of which fewer are unexchanged; `steps` where there are none, as some
/// always are where exchanges overlap or there are several fragments. A round has all numbers that
/// come again, and those before the first of them only rise.
inline std::int64_t longer_run(const run::Exchange& exchange, std::int64_t began,
                               std::int64_t steps) {
  const std::int64_t lost = unexchanged(exchange, began, steps);
  for (std::int64_t more = steps + 1; more < steps + exchange.every; ++more) {
    if (unexchanged(exchange, began, more) < lost) return more;
  }
  return steps;
}

}  // namespace reef::inline v0::optim::detail
