#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/core/language.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/peer_id.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The most pieces into which a job's parameter vector may be divided.
inline constexpr std::int64_t max_pieces = 1 << 20;

/// Returns the number of pieces into which a job's parameter vector is divided.
constexpr std::int64_t piece_count(const Genesis& genesis) {
  return genesis.parameters / genesis.piece + (genesis.parameters % genesis.piece != 0 ? 1 : 0);
}

/// Returns, for each of n members, the share w_i of the round's summing that it does, so that the slowest member is
/// done soonest. `bandwidths`: b_i of each member, the smaller of its upload and download in bytes a second.
///
///     minimise over w >= 0, sum w = 1    max_i (1 + (n - 2) w_i) / b_i
///
/// A member whose bandwidth is not known (0) counts as one with the mean of the others.
///
/// Source: the linear program of hivemind's load balancing, solved in closed form.
///
/// \code
/// const std::vector<double> shares = swarm::reduction_shares(std::vector<double>{1e6, 1e6, 2e6});
/// \endcode
std::vector<double> reduction_shares(std::span<const double> bandwidths);

/// Returns how many of `pieces` pieces each of the shares gets: whole pieces by largest remainder, ties to the first.
std::vector<std::int64_t> split_pieces(std::int64_t pieces, std::span<const double> shares);

/// Returns the most pieces that one of n members sums, so that the parts of the others that it has for them,
///
///     k (n - 1) <= pieces
///
/// are one model at most. Where there are fewer pieces than other members it is one piece.
constexpr std::int64_t most_pieces_of_reducer(std::int64_t pieces, std::int64_t members) {
  const std::int64_t even = pieces / members + (pieces % members != 0 ? 1 : 0);
  return members < 2 ? pieces : (std::max)(even, pieces / (members - 1));
}

/// Returns the reducer of each piece of the parameter vector, the member that sums the piece: by reduction_shares of
/// the members' bandwidths, at most most_pieces_of_reducer. A piece keeps its reducer in `before` (empty: none) unless
/// that one has left or has more pieces than its share.
std::vector<PeerId> assign_reducers(std::span<const PeerId> before, std::span<const Member> members,
                                    std::int64_t pieces);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/pieces.ipp>
#endif
