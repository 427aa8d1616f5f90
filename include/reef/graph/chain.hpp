#pragma once

#include <reef/core/error.hpp>
#include <reef/graph/dag.hpp>
#include <reef/plan/chain.hpp>
#include <reef/profile/profile.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Options of chain_of: which bytes it counts as leaving the device.
struct ChainOptions {
  /// Weights are brought back after a forward and a backward, as ATOM does; else they are dropped, since
  /// they have not changed, and gradients alone leave.
  bool writes_back = false;
};

/// Throws OptionError if the profile is of other operators, or of parameters or outputs of other sizes.
void require_operators_of(const Dag& dag, const profile::Profile& profile);

/// Throws OptionError unless the profile is of this Dag: of the same operators, of the same sizes (those of other
/// micro-batches differ), which save and compute the same (with another number of attention heads they do not),
/// and with figures that can be (Profile::validate). Takes as long as workload().
void require_profile_of(const Dag& dag, const profile::Profile& profile);

/// Returns a model as planners of swapping see it: the operators of its Dag in their order, with the figures of a
/// profile. Times are nanoseconds.
///
///     load            load_s
///     leave_backward  load_s times gradient bytes / parameter bytes: the link is as fast both ways
///     workspaces      working sets
///     cut             all tensors that cross a boundary, also those that skip operators
///
/// Throws as require_operators_of does. A caller checks a profile from outside before, by require_profile_of.
///
/// \code
/// #include <reef/plan/partition_chain.hpp>
/// // given: const graph::Dag& dag, const profile::Profile& profile
/// const plan::Chain chain = graph::chain_of(dag, profile);
/// const std::vector<int> bounds = plan::partition_chain(chain, {.memory = 8_GiB}).bounds;
/// \endcode
plan::Chain chain_of(const Dag& dag, const profile::Profile& profile,
                     const ChainOptions& options = {});

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/chain.ipp>
#endif
