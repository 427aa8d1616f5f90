#pragma once

#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// Encodes a skeleton (the messages and order of one rank's program) as bytes that another rank can decode: numbers use
/// as few bytes as they need, and repeated entries (sizes, kinds) are encoded by their index in a list.
///
/// | size | about 20 bytes for a message and 5 for a join, whatever the size of the rest of the program |
///
/// \code
/// // given: const schedule::Skeleton& skeleton
/// const std::string bytes = schedule::encode(skeleton);  // to send
/// const schedule::Skeleton received = schedule::decode_skeleton(bytes, 8);
/// \endcode
std::string encode(const Skeleton& skeleton);

/// Decodes the skeleton (messages and order of a program) of one of `ranks` ranks from the bytes that `encode`
/// returned. Throws DecodeError for other bytes: all lengths, indices and ranks are checked, and the skeleton's memory
/// is proportional to the bytes.
Skeleton decode_skeleton(std::string_view bytes, int ranks);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/skeleton_encoding.ipp>
#endif
