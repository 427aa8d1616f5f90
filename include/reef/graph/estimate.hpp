#pragma once

#include <reef/graph/dag.hpp>
#include <reef/profile/profile.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// The peak rates of a device, from which estimate() computes times of a model's operators.
struct Speed {
  double flops_per_second = 0;
  double bytes_per_second = 0;       ///< the bandwidth of the device's memory; 0: no operator is limited by it
  /// The rate of copies from host memory to the device, in bytes per second; 0: loads take no time.
  double copy_bytes_per_second = 0;
};

namespace detail {

/// Returns a profile entry with a node's name and kind, and the bytes of its parameters, gradients and outputs.
profile::OperatorProfile identity_of(const Dag& dag, const Node& node);

}  // namespace detail

/// Returns a profile with those figures of every operator that follow from the model's graph alone; all times are zero.
///
/// The sum of the operators' `saved_bytes` equals that of the whole graph planned as one segment.
profile::Profile workload(const Dag& dag);

/// Estimates a profile (times of operators) without running anything: a time is operations over speed, or bytes over
/// bandwidth where that takes longer.
///
///     forward_s = max(flops / flops_per_second, bytes of (inputs + outputs + parameters) / bytes_per_second)
///     load_s = bytes of parameters / copy_bytes_per_second;   backward_s: its own flops, and twice the bytes
///
/// Throws OptionError unless flops_per_second is positive, and the other rates are 0 or positive.
///
/// \code
/// // given: const graph::Dag& dag
/// const auto profile = graph::estimate(
///     dag, {.flops_per_second = 1e13, .bytes_per_second = 5e11, .copy_bytes_per_second = 2e10});
/// \endcode
profile::Profile estimate(const Dag& dag, const Speed& speed);

/// Estimates a profile (times of operators) from the numbers of operations alone, as if memory and copies took no time.
inline profile::Profile estimate(const Dag& dag, double flops_per_second) {
  return estimate(dag, Speed{flops_per_second, 0, 0});
}

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/estimate.ipp>
#endif
