#pragma once

#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The name that a network to emulate had in 0.1: a profile::Network, as plans are made by it.
///
/// \code
/// comm::ProgressOptions options;
/// options.network = comm::NetworkShape::uniform(2, 0.02, 12.5e6);  // 20 ms, 100 Mbit/s
/// \endcode
using NetworkShape = profile::Network;

}  // namespace comm
}  // namespace v0
}  // namespace reef
