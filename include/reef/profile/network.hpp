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

/// The links between devices, as planners read them: plain data.
///
/// | latencies, rates | (N, N) row-major, [from * N + to]; the diagonal is never read            |
/// | names            | one for each device, or none                                              |
///
/// \code
/// const profile::Network network{.devices = 2,
///                                .latencies = {0, 0.02, 0.02, 0},
///                                .rates = {0, 1e8, 1e8, 0},
///                                .names = {"home", "office"}};
/// const Seconds seconds = network.time(0, 1, 1e6);  // 0.03
/// \endcode
struct Network {
  int devices = 0;
  std::vector<Seconds> latencies;  ///< seconds one way
  std::vector<double> rates;       ///< bytes per second
  std::vector<std::string> names;

  [[nodiscard]] Seconds latency(int from, int to) const { return latencies[cell(from, to)]; }
  [[nodiscard]] double rate(int from, int to) const { return rates[cell(from, to)]; }

  /// The time of a message of `bytes` bytes over the link from `from` to `to`: alpha + beta * bytes.
  [[nodiscard]] Seconds time(int from, int to, double bytes) const {
    return latency(from, to) + bytes / rate(from, to);
  }

  /// The device's name, or its number where it has none.
  [[nodiscard]] std::string name(int device) const {
    return names.empty() ? concat("device ", device) : names[static_cast<std::size_t>(device)];
  }

  /// True if both directions of every link are equal.
  [[nodiscard]] bool is_symmetric() const;

  /// Returns the network with both directions of each link set to the mean of their latencies and of their rates.
  [[nodiscard]] Network averaged() const;

  /// Returns the network of the first `count` devices and the links between them.
  [[nodiscard]] Network first(int count) const;

  /// Throws OptionError, naming the link, unless there is a device, sizes fit, latencies are from 0 to
  /// 1e6 s, and rates from 1 to 1e18 B/s.
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
