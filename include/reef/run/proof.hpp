#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

namespace reef {
inline namespace v0 {
namespace run {

/// The hashes that a rank compares with the others: of the plan's facts that must be equal on all ranks, of its own
/// programs, and of the programs of the next rank, which this rank builds, too.
struct PlanHashes {
  std::uint64_t alike = 0;
  std::uint64_t own = 0;
  std::uint64_t next = 0;
};

/// Gathers the lists of numbers of all ranks, one after the other. All ranks call it, with the same name and length.
/// Blocks.
std::vector<std::uint64_t> lists_of_all(comm::Progress& progress, std::string name,
                                        std::span<const std::uint64_t> mine);

/// Returns a hash of all programs and facts if every rank's programs equal those that the rank before it built for it,
/// and the facts are equal on all ranks; otherwise nothing. All ranks call it, and get the same answer. Blocks.
///
/// | wire | three numbers of each rank |
std::optional<std::uint64_t> plans_agree(comm::Progress& progress, const PlanHashes& mine);

/// The result of checking one program of a rank by itself: the program's skeleton (its messages and their order), or
/// its error.
struct RankProof {
  std::string problem{};
  std::string skeleton{};  ///< the skeleton, encoded; empty if there is only one rank
};

/// Checks a rank's program by itself, except that it fits into memory, and returns its skeleton (messages and their
/// order) or its error.
RankProof proved(const PlacedProgram& placed);

namespace detail {

/// Returns the first error of a single rank's program; if there is none, the error of the ranks' programs together.
std::string problem_of(std::vector<std::string> told);

}  // namespace detail

/// Returns the error of the programs of all ranks, from each rank's results of proved(); empty if there is none. All
/// ranks call it with the same number of results, and get the same text. Blocks.
///
/// | wire | the skeletons of one program after the other to rank 0, which checks them together; its result to all |
/// | cost | on rank 0 the memory for the skeletons of one program at a time, and for their check                  |
///
/// \code
/// // given: comm::Progress& progress, const run::PlacedProgram& placed
/// const std::vector<run::RankProof> mine{run::proved(placed)};
/// const std::string problem = run::problem_of_all(progress, mine);  // empty: nothing is wrong
/// \endcode
std::string problem_of_all(comm::Progress& progress, std::span<const RankProof> mine);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/proof.ipp>
#endif
