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

/// The hashes that a rank compares with the others: of the facts that all have alike beside their programs, of its own
/// programs, and of the programs of the rank behind it, as it builds them.
struct PlanHashes {
  std::uint64_t alike = 0;
  std::uint64_t own = 0;
  std::uint64_t next = 0;
};

/// Returns the lists of all ranks, of one length, by rank. All ranks call it, with the same name. Blocks.
std::vector<std::uint64_t> lists_of_all(comm::Progress& progress, std::string name,
                                        std::span<const std::uint64_t> mine);

/// Returns a number that stands for all programs and facts if every rank has programs as the rank ahead of it builds
/// them, and the facts are alike; else nothing. All ranks call it, and get the same answer. Blocks.
///
/// | wire | three numbers of each rank |
std::optional<std::uint64_t> plans_agree(comm::Progress& progress, const PlanHashes& mine);

/// The result of a rank's proof of one of its programs: its skeleton, or the error that it has by itself.
struct Said {
  std::string problem{};
  std::string skeleton{};  ///< encoded bytes; empty where one rank is alone
};

/// Proves all that a program shows by itself, except that it fits into memory.
Said proved(const PlacedProgram& placed);

namespace detail {

/// Returns the first error of a rank's program by itself; else the error of the programs together.
std::string problem_of(std::vector<std::string> told);

}  // namespace detail

/// Returns the error of the programs of all ranks, from every rank's proofs; empty where there is none. All ranks call
/// it with as many proofs, and get the same text. Blocks.
///
/// | wire | the skeletons of one program after the other to rank 0, which proves them together; its verdict to all |
/// | cost | on rank 0 the skeletons of one program at a time, and what proves them                                 |
///
/// \code
/// // given: comm::Progress& progress, const run::PlacedProgram& placed
/// const std::vector<run::Said> mine{run::proved(placed)};
/// const std::string problem = run::problem_of_all(progress, mine);  // empty: nothing is wrong
/// \endcode
std::string problem_of_all(comm::Progress& progress, std::span<const Said> mine);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/proof.ipp>
#endif
