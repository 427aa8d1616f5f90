#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <reef/swarm/core/message.hpp>
#include <reef/swarm/core/round.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Returns the functions of a job whose contributions and results are numbers of fp32, little-endian, as they are.
///
///     result = part of the first contributor + part of the second + ...       in fp32, in ascending order of peers
///
/// | judge | not finite if any number is not, or the weight; norm = |sum| / weight, in fp64; no clipping |
///
/// \code
/// const swarm::core::RoundFunctions functions = swarm::dense_functions(1'000'000, 262'144);
/// \endcode
core::RoundFunctions dense_functions(std::int64_t parameters, std::int64_t piece);

/// Returns a flat vector as parts, one for each piece.
std::vector<Bulk> dense_parts(std::span<const float> numbers, std::int64_t piece);

/// Writes pieces to a flat vector. Throws DecodeError, and then `numbers` is unspecified, for pieces of other lengths.
void read_dense_parts(std::span<const Bulk> parts, std::span<float> numbers);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/dense_parts.ipp>
#endif
