#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/dag.hpp>
#include <reef/profile/profile.hpp>

namespace reef::inline v0::run {

/// What each node takes for a micro-batch, forward and backward: by a profile, else in proportion to its
/// operations.
///
/// Throws OptionError unless the profile is of the model.
std::vector<Seconds> node_times(const graph::Dag& dag, const profile::Profile* profile);

/// Where a model is best cut: before nodes where no more bytes cross than beside them; before any, where those are too
/// few for so many chunks. Ascending, and behind them the number of nodes.
///
/// Throws OptionError for more chunks than nodes, or none.
std::vector<int> narrow_positions(const graph::Dag& dag, int chunks);

/// Where a model is cut into so many chunks that the slowest takes as little as can be: at
/// narrow_positions.
///
/// \code
/// // given: const graph::Dag& dag
/// const std::vector<int> bounds = run::chunk_bounds(dag, run::node_times(dag, nullptr), 4);
/// \endcode
///
/// | order  | ascending: 0, the first nodes of further chunks, the number of nodes          |
/// | errors | OptionError for more chunks than nodes                                       |
/// | cost   | O(nodes log(range of times)): a chunk is filled as far as a bound on it allows |
std::vector<int> chunk_bounds(const graph::Dag& dag, const std::vector<Seconds>& times,
                              int chunks);

/// The chunk of each segment between these cuts, among which the bounds of chunks are. Without bounds: none.
std::vector<int> chunks_between(const std::vector<int>& cuts, const std::vector<int>& bounds);

}  // namespace reef::inline v0::run

#ifndef REEF_COMPILED
#include <reef/run/chunk_bounds.ipp>
#endif
