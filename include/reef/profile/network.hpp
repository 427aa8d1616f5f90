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

/// The links between devices, and the rates that all links of a device share: plain data. Plans are made by them
/// (TrainerSettings::network), and messages emulated (comm::ProgressOptions::network): there a device is a rank.
///
/// | latencies, rates   | (N, N) row-major, [from * N + to]; the diagonal is never read             |
/// | uplinks, downlinks | (N) each, what all links of a device carry together, sent and received; or  |
/// |                    | none: links share nothing                                                 |
/// | names              | one for each device, or none                                              |
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
  /// The rate of a link that bounds nothing, and the most that a link has, in bytes per second.
  static constexpr double max_rate = 1e18;

  int devices = 0;                   ///< 0: there is no network
  std::vector<Seconds> latencies{};  ///< seconds one way
  std::vector<double> rates{};       ///< bytes per second
  std::vector<std::string> names{};
  std::vector<double> uplinks{};     ///< bytes per second of all that a device sends
  std::vector<double> downlinks{};   ///< bytes per second of all that a device receives

  /// Returns the network with the same link between any two devices. Throws as validate does.
  static Network uniform(int devices, Seconds latency, double rate);

  /// Returns the network with the same links, between devices whose uplink and downlink all their links share: bytes per
  /// second of each device, sent and received. Throws as validate does.
  [[nodiscard]] Network with_uplinks(std::vector<double> up, std::vector<double> down) const;

  /// Returns the network with the same links, which share nothing.
  [[nodiscard]] Network without_uplinks() const;

  [[nodiscard]] bool empty() const { return devices == 0; }
  [[nodiscard]] bool has_uplinks() const { return !uplinks.empty(); }

  /// Returns the rate of all that a device sends; downlink: of all that it receives. Only where there are uplinks.
  [[nodiscard]] double uplink(int device) const { return uplinks[static_cast<std::size_t>(device)]; }
  [[nodiscard]] double downlink(int device) const { return downlinks[static_cast<std::size_t>(device)]; }

  [[nodiscard]] Seconds latency(int from, int to) const { return latencies[cell(from, to)]; }
  [[nodiscard]] double rate(int from, int to) const { return rates[cell(from, to)]; }

  /// Returns the time of a message of `bytes` bytes that is alone on its way: alpha + beta * bytes of the link from `from`
  /// to `to`, whatever the uplinks.
  [[nodiscard]] Seconds time(int from, int to, double bytes) const {
    return latency(from, to) + bytes / rate(from, to);
  }

  /// The device's name, or its number where it has none.
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
