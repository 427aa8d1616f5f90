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

#include <reef/comm/error.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/shards.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/skeleton_encoding.hpp>
#include <reef/schedule/skeleton_of.hpp>
#include <reef/schedule/verify.hpp>

namespace reef::inline v0::run {

/// What a rank compares of itself with the others: what all have alike beside their programs, its own programs, and
/// those of the rank behind it, as it builds them.
struct PlanHashes {
  std::uint64_t alike = 0;
  std::uint64_t own = 0;
  std::uint64_t next = 0;
};

/// The lists of all ranks, of one length, by rank. All ranks call it, with the same name. Blocks.
inline std::vector<std::uint64_t> lists_of_all(comm::Progress& progress, std::string name,
                                               std::span<const std::uint64_t> mine) {
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(progress.size()));
  comm::all_gather<std::uint64_t>(
      progress, std::move(name), mine, all,
      comm::even_offsets(static_cast<std::int64_t>(all.size()), progress.size()));
  return all;
}

/// Every rank has programs as the rank ahead of it builds them, and the rest is alike: a number that stands for all of
/// that, or else nothing. All ranks call it, and get the same answer. Blocks.
///
/// | wire | three numbers of each rank |
inline std::optional<std::uint64_t> plans_agree(comm::Progress& progress, const PlanHashes& mine) {
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

/// What a rank says of one of its programs: its skeleton, or what is wrong with it by itself.
struct Said {
  std::string problem{};
  std::string skeleton{};  ///< as bytes; of a rank alone none
};

/// Proves of a program what it shows by itself, but that a memory has room for it.
inline Said proved(const PlacedProgram& placed) {
  Said said;
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

/// The first that somebody's program has of itself; else what they have together.
inline std::string problem_of(std::vector<std::string> told) {
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

/// What is wrong with the programs of all ranks, of each of which every rank has said something; empty where they are
/// right. All ranks call it with as many, and get the same text. Blocks.
///
/// | wire | the skeletons of one program after the other to rank 0, which proves them together; its verdict to all |
/// | cost | on rank 0 the skeletons of one program at a time, and what proves them                                 |
///
/// \code
/// // given: comm::Progress& progress, const run::PlacedProgram& placed
/// const std::vector<run::Said> mine{run::proved(placed)};
/// const std::string problem = run::problem_of_all(progress, mine);  // empty: nothing is wrong
/// \endcode
inline std::string problem_of_all(comm::Progress& progress, std::span<const Said> mine) {
  std::string problem;
  for (const Said& said : mine) {
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

}  // namespace reef::inline v0::run
