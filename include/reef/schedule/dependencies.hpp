#pragma once

#include <cstdint>
#include <vector>

#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// An instruction of another lane that must be complete before the one that waits for it may start.
struct Dependency {
  std::uint32_t instruction = 0;
  bool previous_round = false;

  friend constexpr bool operator==(const Dependency&, const Dependency&) = default;
};

/// The instructions that each instruction of the round waits for, beyond its predecessor on its own lane.
using Dependencies = std::vector<std::vector<Dependency>>;

/// Derives which instructions wait for which from the values that they read, write and come after.
///
/// Two instructions that touch the same bytes, one of them writing, run in the order of the program,
/// in one round and from one round to the next: read after write, write after read, write after write,
/// and accumulations one after the other. An instruction that only waits for a value (Instruction::after) comes behind
/// the value's last write, and no write waits for that instruction. Waits that follow from other waits, or from the
/// order of a lane, are left out; waits for posted transfers only if they follow from the order of a lane. For an
/// instruction outside a loop, the loop's last instruction stands for all of its iterations.
///
/// | cost | O(accesses * log storages), and for each the ranges of its bytes that were accessed apart |
///
/// \code
/// // given: const schedule::Program& program
/// const schedule::Dependencies waits = schedule::derive(program, schedule::place(program));
/// \endcode
Dependencies derive(const Program& program, const Placement& placement);

namespace detail {

/// Derives the dependencies at given addresses; `addresses` and `free` have the meaning that Deriver gives them.
Dependencies derive_at(const Program& program, const std::vector<Bytes>& addresses, bool free);

/// Derives the dependencies within one round. The program need not be placed: regions that share bytes add no waits
/// within a round.
Dependencies derive_in_round(const Program& program);

}  // namespace detail

/// An instruction that is complete, or has started, before another may start.
struct Precedence {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool previous_round = false;
  bool in_iteration = false;  ///< both instructions are of one iteration; else a body's ends stand for its loop
  bool at_start = false;      ///< `from` is posted, and has only to start before the next instruction on its lane
  bool by_lane = false;       ///< the precedence is the order of a lane

  friend constexpr bool operator==(const Precedence&, const Precedence&) = default;
};

/// Returns all precedences among the instructions of a round and the round before: `dependencies` and the order of the
/// lanes. A loop starts after all instructions that its body waits for.
std::vector<Precedence> precedences(const Program& program, const Dependencies& dependencies);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/dependencies.ipp>
#endif
