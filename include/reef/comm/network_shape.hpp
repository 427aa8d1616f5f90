#pragma once

#include <cstddef>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// An emulated network: one full-duplex FIFO link for every ordered pair of ranks, and where `with_uplinks` sets them,
/// an uplink and a downlink of each rank, which all its links share.
///
///     up      = max(asked, uplink free) + bytes / uplink
///     left    = max(up, max(asked, link free) + bytes / bandwidth)
///     reaches = left + latency - bytes / min(uplink, bandwidth)
///     arrival = max(left + latency, max(reaches, downlink free) + bytes / downlink)
///
/// Without uplinks, arrival = max(asked, link free) + bytes / bandwidth + latency. schedule::simulate computes
/// with the same formulas.
///
/// | asked              | when the task was submitted, if nothing kept it from starting; else when it |
/// |                    | sends                                                                       |
/// | latency, bandwidth | (P, P) row-major, [from * P + to]; the diagonal is never read              |
/// | bytes              | of the whole message, header included                                       |
/// | empty              | no emulation: messages take what they take                                  |
/// | uplink, downlink   | busy until up and arrival; (P), infinite where there are none                |
/// | errors             | OptionError for sizes that differ, a latency below 0, a bandwidth not above 0 |
///
/// \code
/// const auto links = comm::NetworkShape::uniform(2, 0.02, 12.5e6);      // 20 ms, 100 Mbit/s
/// const auto homes = links.with_uplinks({1.25e6, 1.25e6}, {6e6, 6e6});  // 10 Mbit/s up, 48 down
/// \endcode
class NetworkShape {
public:
  NetworkShape() = default;

  NetworkShape(int ranks, std::vector<Seconds> latencies, std::vector<double> bytes_per_second);

  /// Returns a network with the same link between all pairs.
  static NetworkShape uniform(int ranks, Seconds latency, double bytes_per_second);

  /// Returns a network with the same links, between machines whose uplink and downlink all their links share: bytes per
  /// second of each rank, sent and received.
  [[nodiscard]] NetworkShape with_uplinks(std::vector<double> up, std::vector<double> down) const;

  [[nodiscard]] bool has_uplinks() const { return !uplink_.empty(); }
  /// Returns the bytes per second of all that a rank sends; downlink: of all that it receives. Only where there are
  /// uplinks.
  [[nodiscard]] double uplink(int rank) const { return uplink_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] double downlink(int rank) const {
    return downlink_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] bool empty() const { return ranks_ == 0; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Seconds latency(int from, int to) const { return latency_[cell(from, to)]; }
  /// Returns the bytes per second of a link.
  [[nodiscard]] double bandwidth(int from, int to) const { return bandwidth_[cell(from, to)]; }

  /// Returns the links without uplinks, as planners read them; of at most 1e18 B/s.
  [[nodiscard]] profile::Network links() const;

private:
  [[nodiscard]] std::size_t cell(int from, int to) const;

  int ranks_ = 0;
  std::vector<Seconds> latency_;
  std::vector<double> bandwidth_;
  std::vector<double> uplink_, downlink_;  // empty, or by rank
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/network_shape.ipp>
#endif
