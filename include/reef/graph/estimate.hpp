#pragma once

#include <reef/graph/dag.hpp>
#include <reef/profile/profile.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// The best rates of a device, as an estimate needs them.
struct Speed {
  double flops_per_second = 0;
  double bytes_per_second = 0;       ///< the rate of the device's memory; 0: not the limit
  double copy_bytes_per_second = 0;  ///< the rate of copies from host memory to the device; 0: loads take no time
};

namespace detail {

/// Returns the fields of a profile that identify an operator, and the bytes that it reads, sums and writes.
profile::OperatorProfile identity_of(const Dag& dag, const Node& node);

}  // namespace detail

/// Returns the figures of every operator that follow from the Dag alone; all times are zero.
///
/// The operators' `saved_bytes` add up to those of the Dag as one segment.
profile::Profile workload(const Dag& dag);

/// Computes a profile without running anything: a time is operations over speed, or bytes over bandwidth
/// where that takes longer.
///
///     forward_s = max(flops / F, (inputs + outputs + parameters) / M),   backward_s: twice the bytes
///     load_s = parameters / link
///
/// Throws OptionError unless the speed is positive.
///
/// \code
/// // given: const graph::Dag& dag
/// const auto profile = graph::estimate(
///     dag, {.flops_per_second = 1e13, .bytes_per_second = 5e11, .copy_bytes_per_second = 2e10});
/// \endcode
profile::Profile estimate(const Dag& dag, const Speed& speed);

/// Computes a profile by operations alone.
inline profile::Profile estimate(const Dag& dag, double flops_per_second) {
  return estimate(dag, Speed{flops_per_second, 0, 0});
}

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/estimate.ipp>
#endif
