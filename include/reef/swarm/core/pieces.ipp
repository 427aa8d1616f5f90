#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/pieces.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE std::vector<double> reduction_shares(std::span<const double> bandwidths) {
  const std::size_t n = bandwidths.size();
  std::vector<double> b(bandwidths.begin(), bandwidths.end());
  double sum = 0;
  double known = 0;
  for (const double bandwidth : b) {
    if (!(bandwidth > 0 && std::isfinite(bandwidth))) continue;
    sum += bandwidth;
    ++known;
  }
  const double mean = known > 0 ? sum / known : 1;
  for (double& bandwidth : b) {
    if (!(bandwidth > 0 && std::isfinite(bandwidth))) bandwidth = mean;
  }
  std::vector<double> shares(n, 0.0);
  if (n <= 2) {
    const double all = std::accumulate(b.begin(), b.end(), 0.0);
    for (std::size_t i = 0; i < n; ++i) shares[i] = b[i] / all;
    return shares;
  }
  // At makespan T member i can take (T b_i - 1) / (n - 2): the fastest k members share, the others take nothing.
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return b[i] > b[j]; });
  const auto others = static_cast<double>(n - 2);
  double fast = 0;
  double makespan = 0;
  for (std::size_t k = 1; k <= n; ++k) {
    fast += b[order[k - 1]];
    const double candidate = (others + static_cast<double>(k)) / fast;
    if (k < n && candidate * b[order[k]] > 1) continue;  // the next one could take some, too
    makespan = candidate;
    break;
  }
  for (std::size_t i = 0; i < n; ++i) shares[i] = (std::max)(0.0, (makespan * b[i] - 1) / others);
  return shares;
}

REEF_INLINE std::vector<std::int64_t> split_pieces(std::int64_t pieces, std::span<const double> shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<std::int64_t> counts(shares.size());
  std::vector<double> remainders(shares.size());
  std::int64_t left = pieces;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double exact = static_cast<double>(pieces) * shares[i] / sum;
    counts[i] = (std::min)(left, static_cast<std::int64_t>(std::floor(exact)));
    remainders[i] = exact - static_cast<double>(counts[i]);
    left -= counts[i];
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return remainders[i] > remainders[j]; });
  for (std::size_t k = 0; left > 0 && !order.empty(); ++k, --left) ++counts[order[k % order.size()]];
  return counts;
}

namespace detail {

/// Gives what members have above `most` to those with the least.
inline void level(std::vector<std::int64_t>& counts, std::int64_t most) {
  std::int64_t above = 0;
  for (std::int64_t& count : counts) {
    const std::int64_t before = std::exchange(count, (std::min)(count, most));
    above += before - count;
  }
  for (; above > 0; --above) ++*std::min_element(counts.begin(), counts.end());
}

}  // namespace detail

REEF_INLINE std::vector<PeerId> assign_reducers(std::span<const PeerId> before, std::span<const Member> members,
                                                std::int64_t pieces) {
  std::vector<double> bandwidths;
  for (const Member& member : members) bandwidths.push_back((std::min)(member.up, member.down));
  std::vector<std::int64_t> room = split_pieces(pieces, reduction_shares(bandwidths));
  detail::level(room, most_pieces_of_reducer(pieces, static_cast<std::int64_t>(members.size())));
  std::vector<PeerId> reducers(static_cast<std::size_t>(pieces));
  std::vector<std::size_t> open;
  for (std::size_t piece = 0; piece < reducers.size(); ++piece) {
    const auto found = piece < before.size()
                           ? std::find_if(members.begin(), members.end(),
                                          [&](const Member& member) { return member.id == before[piece]; })
                           : members.end();
    if (found != members.end() && room[static_cast<std::size_t>(found - members.begin())] > 0) {
      --room[static_cast<std::size_t>(found - members.begin())];
      reducers[piece] = found->id;
    } else {
      open.push_back(piece);
    }
  }
  std::size_t at = 0;
  for (const std::size_t piece : open) {
    while (room[at] == 0) ++at;
    --room[at];
    reducers[piece] = members[at].id;
  }
  return reducers;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
