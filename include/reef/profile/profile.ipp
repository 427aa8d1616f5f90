#pragma once

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/profile/profile.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

REEF_INLINE const OperatorProfile& Profile::at(std::string_view name) const& {
  for (const OperatorProfile& entry : operators) {
    if (entry.name == name) return entry;
  }
  throw OptionError("reef::profile: there is no operator '", name, "' among the profile's ",
                    operators.size(), ".\n  fix: the profile of the graph that has it.");
}

REEF_INLINE void Profile::validate() const {
  const auto require_that = [](bool holds, double value, const auto&... what) {
    if (holds) return;
    throw OptionError("reef::profile: ", what..., " is ", value, ".\n  fix: measure it again.");
  };
  const auto is_rate = [](double value) { return value == 0 || within(value, 1, 1e300); };
  require_that(is_rate(memory_bytes_per_second), memory_bytes_per_second,
               "memory_bytes_per_second");
  require_that(is_rate(host_bytes_per_second), host_bytes_per_second, "host_bytes_per_second");
  require_that(is_rate(copy_bytes_per_second), copy_bytes_per_second, "copy_bytes_per_second");
  require_that(is_rate(link_bytes_per_second), link_bytes_per_second, "link_bytes_per_second");
  require_that(within(copy_latency, 0, 1e9), copy_latency, "copy_latency");
  require_that(within(link_latency, 0, 1e9), link_latency, "link_latency");
  require_that(within(slowdown, 1, 1e9), slowdown, "slowdown");
  double all = 0;
  for (const OperatorProfile& entry : operators) {
    for (const Seconds time : {entry.forward_s, entry.backward_s, entry.load_s}) {
      require_that(within(time, 0, 1e9) && (all += time) <= 1e9, time, "a time of operator '",
                   entry.name, "'");
    }
    for (const double flops : {entry.forward_flops, entry.backward_flops}) {
      require_that(is_finite(flops) && flops >= 0, flops, "a count of operations of operator '",
                   entry.name, "'");
    }
  }
}

REEF_INLINE double Profile::sum(double OperatorProfile::*figure) const {
  double total = 0;
  for (const OperatorProfile& entry : operators) total += entry.*figure;
  return total;
}

}  // namespace profile
}  // namespace v0
}  // namespace reef
