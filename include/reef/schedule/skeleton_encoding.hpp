#pragma once

#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// A skeleton as bytes that another rank can decode: numbers in as few bytes as they need, what a rank says again and
/// again (sizes, kinds) by its place in a list.
///
/// | size | about 20 bytes for a message and 5 for a join, whatever the rest of the program has |
///
/// \code
/// // given: const schedule::Skeleton& skeleton
/// const std::string bytes = schedule::encode(skeleton);  // to send
/// const schedule::Skeleton received = schedule::decode_skeleton(bytes, 8);
/// \endcode
std::string encode(const Skeleton& skeleton);

/// The skeleton that `encode` made bytes of, of one of so many ranks. Throws DecodeError for other bytes: all lengths,
/// places and ranks are checked, and what it holds is in proportion to the bytes.
Skeleton decode_skeleton(std::string_view bytes, int ranks);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/skeleton_encoding.ipp>
#endif
