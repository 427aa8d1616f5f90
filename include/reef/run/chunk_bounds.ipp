#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

// First: where bodies are in headers, its own reads what the next one has.
#include <reef/graph/segment.hpp>

#include <reef/graph/detail/node_range.hpp>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/chunk_bounds.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE std::vector<Seconds> node_times(const graph::Dag& dag, const profile::Profile* profile) {
  constexpr Seconds least = 1e-9;
  if (profile != nullptr) graph::require_operators_of(dag, *profile);
  const graph::detail::NodeRange range(dag, 0, dag.node_count());
  std::vector<Seconds> times;
  for (int n = 0; n < dag.node_count(); ++n) {
    Seconds time = (dag.node_at(n).signature.forward_flops + range.backward_flops(n)) / 1e9;
    if (profile != nullptr) {
      const profile::OperatorProfile& entry = profile->operators[static_cast<std::size_t>(n)];
      time = entry.forward_s + entry.backward_s;
    }
    times.push_back((std::max)(time, least));
  }
  return times;
}

REEF_INLINE std::vector<int> narrow_positions(const graph::Dag& dag, int chunks) {
  const int nodes = dag.node_count();
  if (chunks < 1 || chunks > nodes) {
    throw OptionError("reef::run: ", chunks, " chunks of a model of ", nodes,
                      " nodes.\n  why: each has a node at least.\n  fix: fewer stages, or chunks of them.");
  }
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  std::vector<int> narrow;
  for (int c = 1; c < nodes; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const Bytes before = c > 1 ? crossing[at - 1] : (std::numeric_limits<Bytes>::max)();
    const Bytes behind = c + 1 < nodes ? crossing[at + 1] : (std::numeric_limits<Bytes>::max)();
    if (crossing[at] <= before && crossing[at] <= behind) narrow.push_back(c);
  }
  if (static_cast<int>(narrow.size()) < chunks - 1) {
    narrow.resize(static_cast<std::size_t>(nodes) - 1);
    std::iota(narrow.begin(), narrow.end(), 1);
  }
  narrow.push_back(nodes);
  return narrow;
}

namespace detail {

/// Cuts a chain into chunks at some of its positions, of which the first and the last are its ends.
struct ChunkCutter {
  static constexpr Bytes none = (std::numeric_limits<Bytes>::max)();

  std::vector<Seconds> until;  ///< by position: what all before it takes
  std::vector<Bytes> bytes;    ///< by position: what crosses it
  int chunks = 1;

  /// By how many chunks follow and by position: the fewest bytes that cross borders behind it while no chunk takes more
  /// than `most`; none where that does not go.
  [[nodiscard]] std::vector<std::vector<Bytes>> fewest(Seconds most) const {
    const std::size_t ends = until.size();
    std::vector<std::vector<Bytes>> all{std::vector<Bytes>(ends, none)};
    all[0].back() = 0;
    for (int chunk = 1; chunk <= chunks; ++chunk) {
      const std::vector<Bytes>& behind = all.back();
      std::vector<Bytes> here(ends, none);
      // Where the chunk may end, the furthest first: of two the nearer one goes where it costs no less.
      std::deque<std::size_t> ways;
      const auto cost = [&](std::size_t end) {
        return behind[end] == none ? none : bytes[end] + behind[end];
      };
      for (std::size_t begin = ends - 1; begin-- > 0;) {
        while (!ways.empty() && cost(ways.back()) > cost(begin + 1)) ways.pop_back();
        ways.push_back(begin + 1);
        while (!ways.empty() && until[ways.front()] - until[begin] > most) ways.pop_front();
        if (!ways.empty()) here[begin] = cost(ways.front());
      }
      all.push_back(std::move(here));
    }
    return all;
  }

  [[nodiscard]] Bytes fewest_in_all(Seconds most) const { return fewest(most).back().front(); }

  /// The least of at least `low`, up to `high`, that `holds`; it holds of all above.
  template <class Holds>
  static Seconds least(Seconds low, Seconds high, const Holds& holds) {
    if (holds(low)) return low;
    for (int halving = 0; halving < 60; ++halving) {
      const Seconds middle = low + (high - low) / 2;
      (holds(middle) ? high : low) = middle;
    }
    return high;
  }

  /// Positions from the first to the last, each chunk filled as far as `most` and the fewest bytes allow.
  [[nodiscard]] std::vector<std::size_t> filled(Seconds most) const {
    const std::vector<std::vector<Bytes>> all = fewest(most);
    std::vector<std::size_t> cuts{0};
    for (auto left = static_cast<std::size_t>(chunks); left > 0; --left) {
      const std::size_t begin = cuts.back();
      std::size_t best = begin + 1;
      for (std::size_t end = best; end < until.size() && until[end] - until[begin] <= most; ++end) {
        const Bytes behind = all[left - 1][end];
        if (behind != none && bytes[end] + behind == all[left][begin]) best = end;
      }
      cuts.push_back(best);
    }
    return cuts;
  }
};

}  // namespace detail

REEF_INLINE std::vector<int> chunk_bounds(const graph::Dag& dag, const std::vector<Seconds>& times,
                                          int chunks) {
  std::vector<int> positions = narrow_positions(dag, chunks);
  positions.insert(positions.begin(), 0);
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  detail::ChunkCutter cutter;
  cutter.chunks = chunks;
  Seconds until = 0;
  int node = 0;
  for (const int position : positions) {
    for (; node < position; ++node) until += times[static_cast<std::size_t>(node)];
    cutter.until.push_back(until);
    cutter.bytes.push_back(crossing[static_cast<std::size_t>(position)]);
  }
  const Seconds slowest = cutter.least(
      0, until, [&](Seconds most) { return cutter.fewest_in_all(most) != cutter.none; });
  const Seconds tolerated = slowest * (1 + narrow_border_tolerance);
  const Bytes fewest = cutter.fewest_in_all(tolerated);
  const Seconds most = cutter.least(
      slowest, tolerated, [&](Seconds bound) { return cutter.fewest_in_all(bound) == fewest; });
  std::vector<int> bounds;
  for (const std::size_t cut : cutter.filled(most)) bounds.push_back(positions[cut]);
  return bounds;
}

REEF_INLINE std::vector<int> chunks_between(const std::vector<int>& cuts, const std::vector<int>& bounds) {
  std::vector<int> chunks;
  for (std::size_t s = 0; s + 1 < cuts.size() && !bounds.empty(); ++s) {
    const auto behind = std::upper_bound(bounds.begin(), bounds.end(), cuts[s]);
    chunks.push_back(static_cast<int>(behind - bounds.begin()) - 1);
  }
  return chunks;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
