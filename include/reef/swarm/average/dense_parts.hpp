#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <reef/swarm/core/message.hpp>
#include <reef/swarm/core/round.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Returns the functions of a job that sums vectors of `parameters` fp32 numbers, sent uncompressed and little-endian
/// in pieces (ranges) of `piece` numbers, of which the last may be shorter.
///
///     result = part of the first contributor + part of the second + ...       in fp32, in ascending order of peers
///
/// | accepts | a part of its piece's length, all of whose numbers are finite                                    |
/// | judge   | the norm of the sum over all contributors, in fp64, by their total loss weight; no clipping. Not |
/// |         | finite if a number of the sum or the loss is not                                                 |
///
/// \code
/// const swarm::core::RoundFunctions functions = swarm::dense_functions(1'000'000, 262'144);
/// \endcode
core::RoundFunctions dense_functions(std::int64_t parameters, std::int64_t piece);

/// Returns a flat vector as messages, one for each range of `piece` numbers.
std::vector<Bulk> dense_parts(std::span<const float> numbers, std::int64_t piece);

/// Writes messages, one for each range of the vector, to a flat vector. Throws DecodeError, and then `numbers` is
/// unspecified, for ranges of other lengths.
void read_dense_parts(std::span<const Bulk> parts, std::span<float> numbers);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/dense_parts.ipp>
#endif
