#pragma once

#include <reef/comm/network_shape.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// A network link that the sender emulates: bytes leave at `rate`, and each arrives `latency` later. For tests on one
/// machine.
///
/// \code
/// const auto shape = comm::NetworkShape::uniform(2, 0.025, 12.5e6);  // 25 ms, 100 Mbit/s
/// const swarm::ShapedLink link = swarm::ShapedLink::of(shape, 0, 1);
/// \endcode
struct ShapedLink {
  Seconds latency = 0;  ///< one-way latency in seconds
  double rate = 0;      ///< bandwidth in bytes per second; 0: not limited

  /// Returns the emulated link of a network from device `from` to device `to`.
  static ShapedLink of(const comm::NetworkShape& shape, int from, int to) {
    return {shape.latency(from, to), shape.rate(from, to)};
  }

  [[nodiscard]] bool is_shaped() const { return rate > 0 || latency > 0; }
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
