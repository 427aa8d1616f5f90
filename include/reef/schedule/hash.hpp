#pragma once

#include <cstdint>
#include <span>

#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// Returns the hash of the programs of all ranks. Each rank builds all programs, and ranks compare the hash before they
/// start.
///
/// \code
/// // given: const std::vector<schedule::Program>& programs
/// const std::uint64_t hash = schedule::hash_of(programs);
/// \endcode
std::uint64_t hash_of(std::span<const Program> programs);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/hash.ipp>
#endif
