#pragma once

#include <cstdint>
#include <span>

#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// What ranks compare before they start: the programs of all of them, each as every rank built it.
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
