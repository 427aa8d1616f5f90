#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

/// The links between devices, and the rates that all links of a device share: plain data. Planners read a network
/// (TrainerSettings::network), and comm emulates one (comm::ProgressOptions::network); there, a device is a rank.
///
/// | latencies, rates   | (N, N) row-major, [from * N + to], for N devices; the diagonal is never read |
/// | uplinks, downlinks | (N) each, what all links of a device carry together, sending and receiving;  |
/// |                    | empty: links share nothing                                                   |
/// | names              | one for each device, or empty                                                |
///
/// \code
/// const profile::Network network{.devices = 2,
///                                .latencies = {0, 0.02, 0.02, 0},
///                                .rates = {0, 1e8, 1e8, 0},
///                                .names = {"home", "office"}};
/// const Seconds seconds = network.time(0, 1, 1e6);  // 0.03
/// const auto links = profile::Network::uniform(2, 0.02, 12.5e6);        // 20 ms, 100 Mbit/s
/// const auto homes = links.with_uplinks({1.25e6, 1.25e6}, {6e6, 6e6});  // 10 Mbit/s up, 48 down
/// \endcode
struct Network {
  /// The rate, in bytes per second, of a link that delays nothing; no link has a higher rate.
  static constexpr double max_rate = 1e18;

  int devices = 0;                   ///< the number of devices (or ranks); 0: there is no network
  std::vector<Seconds> latencies{};  ///< the latency of each link, in seconds one way
  std::vector<double> rates{};       ///< the rate of each link, in bytes per second
  std::vector<std::string> names{};
  std::vector<double> uplinks{};    ///< total rate of all that each device sends, in bytes per second
  std::vector<double> downlinks{};  ///< total rate of all that each device receives, in bytes per second

  /// Returns a network with equal links between any two devices. Throws as validate() does.
  static Network uniform(int devices, Seconds latency, double rate);

  /// Returns this network with uplinks and downlinks, which all links of a device share: the bytes per second that each
  /// device sends and receives. Throws as validate() does.
  [[nodiscard]] Network with_uplinks(std::vector<double> up, std::vector<double> down) const;

  /// Returns this network without uplinks and downlinks: its links share nothing.
  [[nodiscard]] Network without_uplinks() const;

  [[nodiscard]] bool empty() const { return devices == 0; }
  [[nodiscard]] bool has_uplinks() const { return !uplinks.empty(); }

  /// Returns the rate of all that a device sends; downlink() returns that of all that it receives. Both need a network
  /// with uplinks.
  [[nodiscard]] double uplink(int device) const { return uplinks[static_cast<std::size_t>(device)]; }
  [[nodiscard]] double downlink(int device) const { return downlinks[static_cast<std::size_t>(device)]; }

  [[nodiscard]] Seconds latency(int from, int to) const { return latencies[cell(from, to)]; }
  [[nodiscard]] double rate(int from, int to) const { return rates[cell(from, to)]; }

  /// Returns the time that a message of `bytes` bytes takes over the link from `from` to `to` if no other message is on
  /// its way: latency + bytes / rate. Uplinks do not count.
  [[nodiscard]] Seconds time(int from, int to, double bytes) const {
    return latency(from, to) + bytes / rate(from, to);
  }

  /// Returns the device's name, or its number if it has none.
  [[nodiscard]] std::string name(int device) const {
    return names.empty() ? concat("device ", device) : names[static_cast<std::size_t>(device)];
  }

  /// Returns true if both directions of every link are equal.
  [[nodiscard]] bool is_symmetric() const;

  /// Returns the network with both directions of each link set to the mean of their latencies and of their rates.
  [[nodiscard]] Network averaged() const;

  /// Returns the network of the first `count` devices and the links between them.
  [[nodiscard]] Network first(int count) const;

  /// Throws OptionError, naming the link, unless there is a device, sizes fit, latencies are from 0 to
  /// 1e6 s, rates from 1 to 1e18 B/s, and uplinks and downlinks finite and above 0 B/s.
  void validate() const;

  friend bool operator==(const Network&, const Network&) = default;

private:
  [[nodiscard]] std::size_t cell(int from, int to) const;
};

}  // namespace profile
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/profile/network.ipp>
#endif
