#pragma once

#include <reef/core/error.hpp>
#include <reef/graph/dag.hpp>
#include <reef/plan/chain.hpp>
#include <reef/profile/profile.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Options of chain_of, which prepares a model for planning of swapping: which bytes are counted as copied from the
/// device back to the host.
struct ChainOptions {
  /// True: weights are copied back to the host after each forward and backward, as in ATOM. False: weights are dropped,
  /// since they have not changed, and only gradients are copied.
  bool writes_back = false;
};

/// Throws OptionError unless the profile has the model's operators, with the same sizes of parameters and outputs.
void require_operators_of(const Dag& dag, const profile::Profile& profile);

/// Throws OptionError unless the profile describes this model: the same operators, with the same sizes (which depend on
/// the micro-batch), saved bytes and operation counts (which depend on the number of heads), and figures that
/// Profile::validate accepts. Its cost is that of workload().
void require_profile_of(const Dag& dag, const profile::Profile& profile);

/// Returns the sequence of operators that planners of swapping read: those of the model in their order, with the times
/// and bytes of a profile. Times are in nanoseconds.
///
///     load            the profile's load_s
///     leave_backward  load_s * gradient bytes / parameter bytes: the link is equally fast in both directions
///     workspaces      the profile's working sets: forward_set_bytes, backward_set_bytes
///     cut             the bytes of all tensors that cross a boundary, also of tensors that skip operators
///
/// Throws what require_operators_of throws. A caller first checks a profile from outside by require_profile_of.
///
/// \code
/// #include <reef/plan/partition_chain.hpp>
/// // given: const graph::Dag& dag, const profile::Profile& profile
/// const plan::OperatorChain chain = graph::chain_of(dag, profile);
/// const std::vector<int> bounds = plan::partition_chain(chain, {.memory = 8_GiB}).bounds;
/// \endcode
plan::OperatorChain chain_of(const Dag& dag, const profile::Profile& profile,
                             const ChainOptions& options = {});

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/chain.ipp>
#endif
