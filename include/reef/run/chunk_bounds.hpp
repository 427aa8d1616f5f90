#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/dag.hpp>
#include <reef/profile/profile.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Returns the time of each node for a micro-batch, forward and backward: by a profile, else in proportion to its
/// operations.
///
/// Throws OptionError unless the profile is of the model.
std::vector<Seconds> node_times(const graph::Dag& dag, const profile::Profile* profile);

/// Returns the best positions to cut a model at, ascending, and behind them the number of nodes: before nodes where no
/// more bytes cross than beside them; before any node, where those are too few for so many chunks.
///
/// Throws OptionError for more chunks than nodes, or for no chunk.
std::vector<int> narrow_positions(const graph::Dag& dag, int chunks);

/// The share by which the slowest chunk may take longer than it must, where fewer bytes cross borders then. A border
/// inside a layer of a transformer is at least twice as wide as one beside it, and half a layer takes less than this
/// share of a stage.
inline constexpr double narrow_border_tolerance = 0.1;

/// Returns the bounds that cut a model into so many chunks, at narrow_positions.
///
/// Of all cuts whose slowest chunk takes at most 1 + narrow_border_tolerance times as long as the least possible, it
/// takes those that the fewest bytes cross; of these, the cuts with the fastest slowest chunk.
///
/// \code
/// // given: const graph::Dag& dag
/// const std::vector<int> bounds = run::chunk_bounds(dag, run::node_times(dag, nullptr), 4);
/// \endcode
///
/// | order  | ascending: 0, the first nodes of further chunks, the number of nodes          |
/// | errors | OptionError for more chunks than nodes                                       |
/// | ties   | the earlier chunk has more                                                   |
/// | cost   | O(chunks nodes log(range of times))                                          |
std::vector<int> chunk_bounds(const graph::Dag& dag, const std::vector<Seconds>& times,
                              int chunks);

/// Returns the chunk of each segment between cuts, among which the bounds of chunks are. Without bounds: an empty
/// vector.
std::vector<int> chunks_between(const std::vector<int>& cuts, const std::vector<int>& bounds);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/chunk_bounds.ipp>
#endif
