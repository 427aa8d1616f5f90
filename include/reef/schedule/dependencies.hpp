#pragma once

#include <cstdint>
#include <vector>

#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// A wait until the instruction of this index, in another queue of the rank, is complete, in the same run of the
/// program or the previous one.
struct Dependency {
  std::uint32_t instruction = 0;
  bool previous_round = false;

  friend constexpr bool operator==(const Dependency&, const Dependency&) = default;
};

/// For each instruction of a program, by index: the instructions that it waits for besides its predecessor in its
/// queue.
using Dependencies = std::vector<std::vector<Dependency>>;

/// Derives, from the values that each instruction of a program reads, writes and comes after, for which instructions it
/// waits.
///
/// Two instructions that access the same bytes, at least one of them writing, run in the order of the program, in one
/// run of the program (round) and from one round to the next: read after write, write after read, write after write,
/// and accumulations one after the other. An instruction that only waits for a value (Instruction::after) runs after
/// the value's last write, and no write waits for that instruction. Waits that follow from other waits, or from the
/// order of a lane, are omitted; those for posted transfers only if they follow from the order of a lane. For an
/// instruction outside a loop, the loop's last instruction stands for all of its iterations.
///
/// | cost | O(accesses * log storages), plus for each access the number of separately accessed ranges of its bytes |
///
/// \code
/// // given: const schedule::Program& program
/// const schedule::Dependencies waits = schedule::derive(program, schedule::place(program));
/// \endcode
Dependencies derive(const Program& program, const Placement& placement);

namespace detail {

/// Derives the dependencies between instructions whose memory blocks (storages) have the given addresses; `addresses`
/// and `free` are those of the constructor of Deriver.
Dependencies derive_at(const Program& program, const std::vector<Bytes>& addresses, bool free);

/// Derives the dependencies between instructions within one run of the program. The program need not have memory
/// offsets yet: blocks that share bytes cause no waits within a run.
Dependencies derive_in_round(const Program& program);

}  // namespace detail

/// An order of two instructions of a program: `from` must be complete, or have started, before `to` may start.
struct Precedence {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool previous_round = false;
  /// True: `from` and `to` run in the same iteration of a loop. False: if `from` or `to` is in a loop, the precedence
  /// is that of the last instruction of the loop's body, or that of the first.
  bool in_iteration = false;
  bool at_start = false;  ///< true: `from` must only have started, not completed, before the next one in its queue
  bool by_lane = false;   ///< true: the order is that of a queue

  friend constexpr bool operator==(const Precedence&, const Precedence&) = default;
};

/// Returns all precedences among the instructions of one run of a program and the run before: those of `dependencies`
/// and those of the order of the queues. A loop starts after all instructions that its body waits for.
std::vector<Precedence> precedences(const Program& program, const Dependencies& dependencies);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/dependencies.ipp>
#endif
