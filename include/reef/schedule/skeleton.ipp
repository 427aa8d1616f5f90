#pragma once

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

REEF_INLINE RankSet RankSet::of(std::span<const int> members) {
  RankSet result;
  for (const int member : members) {
    if (!result.runs.empty()) {
      RankRun& last = result.runs.back();
      const int step = member - (last.first + (last.count - 1) * last.stride);
      if (last.count == 1) last.stride = step;
      if (step == last.stride) {
        ++last.count;
        continue;
      }
    }
    result.runs.push_back({member, 1, 1});
  }
  return result;
}

REEF_INLINE std::vector<int> RankSet::members() const {
  std::vector<int> result;
  for (const RankRun& run : runs) {
    for (int i = 0; i < run.count; ++i) result.push_back(run.first + i * run.stride);
  }
  return result;
}

REEF_INLINE std::size_t RankSet::size() const {
  std::size_t result = 0;
  for (const RankRun& run : runs) result += static_cast<std::size_t>(run.count);
  return result;
}

REEF_INLINE int RankSet::position_of(int rank) const {
  int before = 0;
  for (const RankRun& run : runs) {
    const int ahead = rank - run.first;
    if (ahead < 0) return -1;
    if (ahead % run.stride == 0 && ahead / run.stride < run.count)
      return before + ahead / run.stride;
    before += run.count;
  }
  return -1;
}

REEF_INLINE std::string Skeleton::text_of(std::size_t node) const {
  const auto text = [&](const Name& name) {
    Instruction named;
    named.kind = kinds[name.kind];
    named.index = name.index;
    named.micro_batch = name.micro_batch;
    return named.text();
  };
  const Node& at = nodes[node];
  std::string result = concat("rank ", rank, ": ", text(at.name), " on lane ", name_of(at.lane));
  if (at.part == Part::loop) {
    result += concat(", in a loop until ", text(untils[at.exchange]), ",");
  }
  return result;
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
