#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/chunk_bounds.hpp>

namespace reef::inline v0::run {

REEF_INLINE std::vector<Seconds> node_times(const graph::Dag& dag, const profile::Profile* profile) {
  constexpr Seconds least = 1e-9;
  if (profile != nullptr) graph::require_operators_of(dag, *profile);
  std::vector<Seconds> times;
  for (int n = 0; n < dag.node_count(); ++n) {
    const graph::Signature& signature = dag.node_at(n).signature;
    Seconds time = (signature.forward_flops + signature.backward_flops) / 1e9;
    if (profile != nullptr) {
      const profile::OperatorProfile& entry = profile->operators[static_cast<std::size_t>(n)];
      time = entry.forward_s + entry.backward_s;
    }
    times.push_back(std::max(time, least));
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
    const Bytes before = c > 1 ? crossing[at - 1] : std::numeric_limits<Bytes>::max();
    const Bytes behind = c + 1 < nodes ? crossing[at + 1] : std::numeric_limits<Bytes>::max();
    if (crossing[at] <= before && crossing[at] <= behind) narrow.push_back(c);
  }
  if (static_cast<int>(narrow.size()) < chunks - 1) {
    narrow.resize(static_cast<std::size_t>(nodes) - 1);
    std::iota(narrow.begin(), narrow.end(), 1);
  }
  narrow.push_back(nodes);
  return narrow;
}

REEF_INLINE std::vector<int> chunk_bounds(const graph::Dag& dag, const std::vector<Seconds>& times,
                                          int chunks) {
  const int nodes = dag.node_count();
  const std::vector<int> narrow = narrow_positions(dag, chunks);
  std::vector<Seconds> until(times.size() + 1, 0);
  std::partial_sum(times.begin(), times.end(), until.begin() + 1);
  const auto time = [&](int first, int last) {
    return until[static_cast<std::size_t>(last)] - until[static_cast<std::size_t>(first)];
  };
  // As long as a chunk may take `most`; each leaves positions for those behind it. Empty: it does not go.
  const auto filled = [&](Seconds most) {
    std::vector<int> bounds{0};
    std::size_t next = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const std::size_t last = narrow.size() - static_cast<std::size_t>(chunks - chunk);
      if (time(bounds.back(), narrow[next]) > most) return std::vector<int>{};
      while (next < last && time(bounds.back(), narrow[next + 1]) <= most) ++next;
      bounds.push_back(narrow[next++]);
    }
    return bounds.back() == nodes ? bounds : std::vector<int>{};
  };
  Seconds low = 0;
  Seconds high = until.back();
  std::vector<int> best = filled(high);
  for (int halving = 0; halving < 60; ++halving) {
    const Seconds middle = low + (high - low) / 2;
    std::vector<int> found = filled(middle);
    if (found.empty()) {
      low = middle;
    } else {
      high = middle;
      best = std::move(found);
    }
  }
  return best;
}

REEF_INLINE std::vector<int> chunks_between(const std::vector<int>& cuts, const std::vector<int>& bounds) {
  std::vector<int> chunks;
  for (std::size_t s = 0; s + 1 < cuts.size() && !bounds.empty(); ++s) {
    const auto behind = std::upper_bound(bounds.begin(), bounds.end(), cuts[s]);
    chunks.push_back(static_cast<int>(behind - bounds.begin()) - 1);
  }
  return chunks;
}

}  // namespace reef::inline v0::run
