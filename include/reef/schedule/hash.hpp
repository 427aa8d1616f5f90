#pragma once

#include <cstdint>
#include <span>

#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule {

/// What ranks compare before they start: the programs of all of them, each as every rank built it.
std::uint64_t hash_of(std::span<const Program> programs);

}  // namespace reef::inline v0::schedule

#ifndef REEF_COMPILED
#include <reef/schedule/hash.ipp>
#endif
