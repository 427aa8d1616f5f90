#pragma once

#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The former name of profile::Network, in version 0.1, where a network to emulate had a type of its own.
///
/// \code
/// comm::ProgressOptions options;
/// options.network = comm::NetworkShape::uniform(2, 0.02, 12.5e6);  // 20 ms, 100 Mbit/s
/// \endcode
using NetworkShape = profile::Network;

}  // namespace comm
}  // namespace v0
}  // namespace reef
