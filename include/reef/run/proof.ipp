#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/run/proof.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE std::vector<std::uint64_t> lists_of_all(comm::Progress& progress, std::string name,
                                                    std::span<const std::uint64_t> mine) {
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(progress.size()));
  comm::all_gather<std::uint64_t>(
      progress, std::move(name), mine, all,
      comm::even_offsets(static_cast<std::int64_t>(all.size()), progress.size()));
  return all;
}

REEF_INLINE std::optional<std::uint64_t> plans_agree(comm::Progress& progress, const PlanHashes& mine) {
  const std::array own{mine.alike, mine.own, mine.next};
  const std::vector<std::uint64_t> all = lists_of_all(progress, "plan of a step", own);
  Hash agreed;
  for (std::size_t at = 0; at < all.size(); at += own.size()) {
    const std::size_t behind = (at + own.size()) % all.size();
    if (all[at] != all[0] || all[at + 2] != all[behind + 1]) return std::nullopt;
    agreed.add(all[at]).add(all[at + 1]);
  }
  return agreed.value();
}

REEF_INLINE RankProof proved(const PlacedProgram& placed) {
  RankProof said;
  const int ranks = placed.builder.plan.ranks();
  try {
    schedule::verify_rank(placed.program, placed.placement, ranks);
  } catch (const ScheduleError& error) {
    said.problem = error.what();
    return said;
  }
  if (ranks == 1) return said;
  said.skeleton = schedule::encode(
      schedule::skeleton_of(placed.program, schedule::derive(placed.program, placed.placement)));
  return said;
}

namespace detail {

REEF_INLINE std::string problem_of(std::vector<std::string> told) {
  for (const std::string& text : told) {
    if (text.front() == '!') return text.substr(1);
  }
  std::vector<schedule::Skeleton> skeletons;
  try {
    for (std::string& text : told) {
      skeletons.push_back(schedule::decode_skeleton(std::string_view(text).substr(1),
                                                    static_cast<int>(told.size())));
      text = {};
    }
    schedule::verify_together(skeletons);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace detail

REEF_INLINE std::string problem_of_all(comm::Progress& progress, std::span<const RankProof> mine) {
  std::string problem;
  for (const RankProof& said : mine) {
    if (progress.size() == 1) {
      if (problem.empty()) problem = said.problem;
      continue;
    }
    std::vector<std::string> told = comm::gather_texts(
        progress, "skeletons", said.problem.empty() ? '=' + said.skeleton : '!' + said.problem);
    if (progress.rank() == 0 && problem.empty()) problem = detail::problem_of(std::move(told));
  }
  if (progress.size() == 1) return problem;
  problem = comm::broadcast_text(progress, "verdict on the programs", std::move(problem));
  if (problem.empty()) return problem;
  // Who ends now would end the others, perhaps before they have it: all meet once more.
  try {
    comm::barrier(progress, "verdict on the programs (told)");
  } catch (const comm::MpiError&) {  // by who left the barrier first, and knows the same
  }
  return problem;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
