#pragma once

#include <cstdint>
#include <vector>

#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// An instruction of another lane that must be complete before one may start.
struct Dependency {
  std::uint32_t instruction = 0;
  bool previous_round = false;

  friend constexpr bool operator==(const Dependency&, const Dependency&) = default;
};

/// By instruction of the round: what it waits for, beyond its predecessor on its own lane.
using Dependencies = std::vector<std::vector<Dependency>>;

/// Derives who waits for whom from what the instructions read and write.
///
/// Two instructions that touch the same bytes, one of them writing, run in the order of the program,
/// in one round and from one round to the next: read after write, write after read, write after write,
/// and accumulations one after the other. Waits that follow from others, or from the order of a lane,
/// are left out; of posted transfers only those that follow from the order of a lane. From outside a loop its last
/// instruction stands for all of its iterations.
///
/// | cost | O(accesses * log storages), and for each the ranges of its bytes that were accessed apart |
///
/// \code
/// // given: const schedule::Program& program
/// const schedule::Dependencies waits = schedule::derive(program, schedule::place(program));
/// \endcode
Dependencies derive(const Program& program, const Placement& placement);

namespace detail {

/// `addresses` and `free` as of Deriver.
Dependencies derive_at(const Program& program, const std::vector<Bytes>& addresses, bool free);

/// What an instruction waits for in its own round, of a program that need not be placed: regions that share bytes add
/// nothing to that.
Dependencies derive_in_round(const Program& program);

}  // namespace detail

/// An instruction that is complete, or has started, before another may start.
struct Precedence {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool previous_round = false;
  bool in_iteration = false;  ///< both of one iteration; else a body's ends stand for its loop
  bool at_start = false;      ///< what is posted has only to start before the next on its lane
  bool by_lane = false;       ///< it is the order of a lane

  friend constexpr bool operator==(const Precedence&, const Precedence&) = default;
};

/// All that orders the instructions of a round and the round before: `dependencies` and the lanes. A
/// loop starts after all that its body waits for.
std::vector<Precedence> precedences(const Program& program, const Dependencies& dependencies);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/dependencies.ipp>
#endif
