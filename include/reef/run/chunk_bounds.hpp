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

/// Returns the time of each node of the model's graph for a micro-batch, forward and backward: from a profile, or if it
/// is null, in proportion to the node's operations.
///
/// Throws OptionError unless the profile is that of the model.
std::vector<Seconds> node_times(const graph::Dag& dag, const profile::Profile* profile);

/// Returns the nodes before which a model is best cut into pipeline chunks, ascending, and then the number of nodes:
/// those before which no more bytes of activations cross than before their neighbours; or all nodes, if those are too
/// few for `chunks` chunks.
///
/// Throws OptionError for more chunks than nodes, or fewer than 1.
std::vector<int> narrow_positions(const graph::Dag& dag, int chunks);

/// The fraction by which the slowest pipeline chunk may be slower than the least possible, if fewer bytes then cross
/// between chunks. At least twice as many bytes cross a border inside a transformer layer as one between layers, and
/// half a layer takes less time than this fraction of a stage.
inline constexpr double narrow_border_tolerance = 0.1;

/// Returns the bounds that cut a model into `chunks` pipeline chunks, at the positions of narrow_positions.
///
/// Of all cuts whose slowest chunk takes at most 1 + narrow_border_tolerance times the least possible time, these are
/// the cuts that the fewest bytes cross; of several such cuts, those with the fastest slowest chunk.
///
/// \code
/// // given: const graph::Dag& dag
/// const std::vector<int> bounds = run::chunk_bounds(dag, run::node_times(dag, nullptr), 4);
/// \endcode
///
/// | order  | ascending: 0, the first node of each further chunk, the number of nodes |
/// | errors | OptionError for more chunks than nodes                                  |
/// | ties   | the earlier chunk gets more nodes                                       |
/// | cost   | O(chunks nodes log(range of times))                                     |
std::vector<int> chunk_bounds(const graph::Dag& dag, const std::vector<Seconds>& times,
                              int chunks);

/// Returns the pipeline chunk of each segment [cuts[s], cuts[s + 1]), where chunk c is [bounds[c], bounds[c + 1]);
/// bounds are among the cuts. Returns an empty vector if there are no bounds.
std::vector<int> chunks_between(const std::vector<int>& cuts, const std::vector<int>& bounds);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/chunk_bounds.ipp>
#endif
