#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include <reef/core/inline.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/stage_memory.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE StageMemory::StageMemory(const graph::Dag& dag, const std::vector<int>& positions,
                                     int stages, int micro_batches)
    : known_(static_cast<std::size_t>(stages)) {
  const profile::Profile workload = graph::workload(dag);
  std::vector<Bytes> workspaces;  // between neighbours
  for (std::size_t i = 0; i + 1 < positions.size(); ++i) {
    Bytes fixed = 0;
    Bytes saved = 0;
    Bytes workspace = 0;
    for (int node = positions[i]; node < positions[i + 1]; ++node) {
      const auto& entry = workload.operators[static_cast<std::size_t>(node)];
      fixed += entry.parameter_bytes + 3 * entry.gradient_bytes;
      saved += entry.saved_bytes;
      workspace =
          (std::max)({workspace, entry.forward_workspace_bytes, entry.backward_workspace_bytes});
    }
    fixed_.push_back(fixed_.back() + fixed);
    saved_.push_back(saved_.back() + saved);
    workspaces.push_back(workspace);
  }
  for (std::size_t first = 0; first < workspaces.size(); ++first) {
    std::vector<Bytes>& most = workspaces_.emplace_back(workspaces.size() + 1);
    for (std::size_t end = first + 1; end < most.size(); ++end)
      most[end] = (std::max)(most[end - 1], workspaces[end - 1]);
  }
  for (int stage = 0; stage < stages; ++stage) {
    held_.push_back(static_cast<Bytes>(std::clamp(micro_batches, 1, stages - stage)));
  }
}

REEF_INLINE Bytes StageMemory::estimate(int stage, Part part) const {
  const auto first = static_cast<std::size_t>(part.first);
  const auto end = static_cast<std::size_t>(part.second);
  return fixed_[end] - fixed_[first] +
         held_[static_cast<std::size_t>(stage)] * (saved_[end] - saved_[first]) +
         workspaces_[first][end];
}

REEF_INLINE Bytes StageMemory::foreseen(int stage, Part part) const {
  const auto own = static_cast<std::int64_t>(estimate(stage, part));
  std::int64_t nearest = (std::numeric_limits<std::int64_t>::max)();
  std::int64_t error = 0;
  Bytes least = 0;
  Bytes most = (std::numeric_limits<Bytes>::max)();
  for (const auto& [other, bytes] : known_[static_cast<std::size_t>(stage)]) {
    if (other == part) return bytes;
    const std::int64_t apart =
        (std::abs)(part.first - other.first) + (std::abs)(part.second - other.second);
    if (apart < nearest) {
      nearest = apart;
      error = static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(estimate(stage, other));
    }
    if (part.first <= other.first && other.second <= part.second) least = (std::max)(least, bytes);
    if (other.first <= part.first && part.second <= other.second) most = (std::min)(most, bytes);
  }
  const auto corrected = static_cast<Bytes>(std::max<std::int64_t>(own + error, 1));
  return (std::max)(least, (std::min)(corrected, most));
}

}  // namespace run
}  // namespace v0
}  // namespace reef
