#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/topology.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE Group Topology::holders(int stage) const {
  Group group{concat("stage ", stage), {}};
  for (int replica = 0; replica < replicas; ++replica) {
    group.members.push_back(rank(replica, stage));
  }
  std::sort(group.members.begin(), group.members.end());
  return group;
}

REEF_INLINE Group Topology::everyone() const {
  Group group{"all ranks", std::vector<int>(static_cast<std::size_t>(ranks()))};
  std::iota(group.members.begin(), group.members.end(), 0);
  return group;
}

REEF_INLINE Group Topology::pipeline(int replica) const {
  Group group{concat("replica ", replica), {}};
  for (int stage = 0; stage < stages; ++stage) group.members.push_back(rank(replica, stage));
  std::sort(group.members.begin(), group.members.end());
  return group;
}

REEF_INLINE void Topology::validate_ranks() const {
  if (replicas < 1 || stages < 1) {
    throw OptionError("reef::run::Topology: ", replicas, " replicas of ", stages,
                      " stages.\n  fix: at least 1 of each.");
  }
  if (!rank_at.empty()) {
    std::vector<int> sorted = rank_at;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> all(static_cast<std::size_t>(ranks()));
    std::iota(all.begin(), all.end(), 0);
    if (sorted != all) {
      throw OptionError("reef::run::Topology: rank_at has ", rank_at.size(),
                        " entries that do not name each of ", ranks(),
                        " ranks once.\n  fix: a permutation of 0 to ", ranks() - 1,
                        ", at [replica * stages + stage].");
    }
  }
}

REEF_INLINE void Topology::validate(int segments) const {
  validate_ranks();
  require_places("chunk", stage_of_chunk);
  if (!chunk_of_segment.empty() &&
      (chunk_of_segment.size() != static_cast<std::size_t>(segments) ||
       !std::is_sorted(chunk_of_segment.begin(), chunk_of_segment.end()) ||
       chunk_of_segment.front() != 0 || chunk_of_segment.back() != chunks() - 1 ||
       std::adjacent_find(chunk_of_segment.begin(), chunk_of_segment.end(),
                          [](int a, int b) { return b > a + 1; }) != chunk_of_segment.end())) {
    throw OptionError("reef::run::Topology: chunk_of_segment has ", chunk_of_segment.size(),
                      " entries for ", segments, " segments in ", chunks(),
                      " chunks, or they do not ascend from 0 one by one.\n  fix: one for each segment, ascending.");
  }
  if (stage_of_segment.empty() && chunks() > segments) {
    throw OptionError("reef::run::Topology: ", chunks(), chunks() == stages ? " stages" : " chunks",
                      " for a model of ", segments, segments == 1 ? " segment" : " segments",
                      ".\n  why: each holds one segment at least.\n  fix: fewer of them, or "
                      "more cuts.");
  }
  if (!stage_of_segment.empty()) {
    if (stage_of_segment.size() != static_cast<std::size_t>(segments)) {
      throw OptionError("reef::run::Topology: stage_of_segment has ", stage_of_segment.size(),
                        " entries for ", segments, " segments.\n  fix: one for each.");
    }
    require_places("segment", stage_of_segment);
  }
}

REEF_INLINE void Topology::validate_bounds(int nodes) const {
  if (bounds.empty()) return;
  if (!chunk_of_segment.empty() || !stage_of_segment.empty()) {
    throw OptionError("reef::run::Topology: there are bounds of chunks, and segments have their places.\n"
                      "  why: both say which nodes are on which stage.\n  fix: one of them.");
  }
  if (static_cast<int>(bounds.size()) == chunks() + 1 && bounds.front() == 0 && bounds.back() == nodes &&
      std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>{}) == bounds.end()) {
    return;
  }
  throw OptionError("reef::run::Topology: bounds has ", bounds.size(), " entries for ", chunks(),
                    " chunks of a model of ", nodes, " nodes, or they do not ascend from 0 to that.\n"
                    "  fix: 0, the first node of each further chunk, and ", nodes, ".");
}

REEF_INLINE std::vector<int> Topology::chunks_of(int segments) const {
  if (!chunk_of_segment.empty() && stage_of_segment.empty()) return chunk_of_segment;
  std::vector<int> result(static_cast<std::size_t>(segments));
  for (std::size_t s = 1; s < stage_of_segment.size(); ++s) {
    result[s] = result[s - 1] + (stage_of_segment[s] == stage_of_segment[s - 1] ? 0 : 1);
  }
  if (!stage_of_segment.empty()) return result;
  const auto bound = [&](int chunk) {
    return static_cast<int>(std::int64_t{chunk} * segments / chunks());
  };
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    std::fill(result.begin() + bound(chunk), result.begin() + bound(chunk + 1), chunk);
  }
  return result;
}

REEF_INLINE std::vector<int> Topology::stages_of(int segments) const {
  if (!stage_of_segment.empty()) return stage_of_segment;
  std::vector<int> result = chunks_of(segments);
  for (int& place : result) {
    if (!stage_of_chunk.empty()) place = stage_of_chunk[static_cast<std::size_t>(place)];
  }
  return result;
}

REEF_INLINE std::string Topology::text() const {
  std::string result =
      concat(replicas, replicas == 1 ? " replica of " : " replicas of ", stages, stages == 1 ? " stage" : " stages");
  for (const int& rank : rank_at) {
    result += concat(&rank == rank_at.data() ? ", ranks " : " ", rank);
  }
  for (const int& stage : stage_of_chunk) {
    result += concat(&stage == stage_of_chunk.data() ? ", stages of chunks " : " ", stage);
  }
  for (const int& stage : stage_of_segment) {
    result += concat(&stage == stage_of_segment.data() ? ", stages of segments " : " ", stage);
  }
  for (const int& chunk : chunk_of_segment) {
    result += concat(&chunk == chunk_of_segment.data() ? ", chunks of segments " : " ", chunk);
  }
  for (const int& bound : bounds) result += concat(&bound == bounds.data() ? ", chunks from node " : " ", bound);
  return result;
}

REEF_INLINE void Topology::add_to(Hash& hash) const {
  hash.add(replicas).add(stages);
  for (const std::vector<int>* const places : {&rank_at, &chunk_of_segment, &stage_of_chunk, &stage_of_segment}) {
    hash.add(places->size());
    for (const int place : *places) hash.add(place);
  }
}

REEF_INLINE void Topology::require_places(const char* what, const std::vector<int>& places) const {
  for (int stage = 0; stage < stages && !places.empty(); ++stage) {
    if (std::find(places.begin(), places.end(), stage) != places.end()) continue;
    throw OptionError("reef::run::Topology: stage ", stage, " has no ", what,
                      ".\n  fix: one at least for each of ", stages, " stages.");
  }
  for (const int stage : places) {
    if (stage >= 0 && stage < stages) continue;
    throw OptionError("reef::run::Topology: a ", what, " is in stage ", stage, " of ", stages,
                      ".\n  fix: 0 to ", stages - 1, ".");
  }
}

}  // namespace run
}  // namespace v0
}  // namespace reef
