#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <reef/comm/network_shape.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/profile/network_json.hpp>

namespace reef::inline v0::comm {

/// The keys of a network's case: its links, and what planners read of the same file.
inline constexpr std::array<std::string_view, 9> network_keys{
    "latency_ms", "bandwidth_gbps", "uplink_gbps", "downlink_gbps", "devices",
    "D_PP",       "D_DP",           "c_pp_bytes",  "c_dp_bytes"};

/// One number for all devices, or a list with one for each, of 10^9 bits per second: in bytes per
/// second, of the first `ranks`. Nothing where there is no such key. Throws DecodeError unless they are
/// above 0 and enough.
inline std::vector<double> read_uplinks(const io::Json& network, const char* key, int ranks,
                                        const std::string& file) {
  if (!network.contains(key)) return {};
  const auto wanted = static_cast<std::size_t>(ranks);
  const auto given = io::require<std::variant<double, std::vector<double>>>(network, key, file);
  const double* const all = std::get_if<double>(&given);
  std::vector<double> rates =
      all != nullptr ? std::vector<double>(wanted, *all) : std::get<std::vector<double>>(given);
  const bool possible =
      rates.size() >= wanted &&
      std::all_of(rates.begin(), rates.end(), [](double rate) { return within(rate, 1e-9, 1e12); });
  if (!possible) {
    throw DecodeError(
        "reef::comm::read_uplinks: ", file, ": ", key, " is not what ", ranks,
        " devices need.\n  fix: a number of Gbit/s above 0 for all, or a list with one "
        "for each; without the key their links share nothing.");
  }
  rates.resize(wanted);
  for (double& rate : rates) rate *= 1e9 / 8;
  return rates;
}

/// Of both directions: uplink_gbps, and downlink_gbps, which is the same where it is not there.
inline std::pair<std::vector<double>, std::vector<double>> read_uplinks(const io::Json& network,
                                                                        int ranks,
                                                                        const std::string& file) {
  std::vector<double> up = read_uplinks(network, "uplink_gbps", ranks, file);
  std::vector<double> down = read_uplinks(network, "downlink_gbps", ranks, file);
  if (down.empty()) down = up;
  if (up.empty() && !down.empty()) {
    throw DecodeError("reef::comm::read_uplinks: ", file,
                      ": downlink_gbps without uplink_gbps.\n  fix: both, or uplink_gbps alone.");
  }
  return {std::move(up), std::move(down)};
}

/// Reads the links between the first `ranks` devices of a case: rank r is device r.
///
/// | latency_ms     | square matrix, milliseconds one way                                |
/// | bandwidth_gbps | square matrix of the same size, 10^9 bits per second               |
/// | uplink_gbps    | may be there: what all links of a device carry together, sending; a number |
/// |                | for all devices, or a list with one for each                       |
/// | downlink_gbps  | the same, receiving; as much as uplink_gbps where it is not there  |
/// | errors         | FileError if it cannot be read; DecodeError, with the file, if it is no such case, |
/// |                | has a key that nothing reads, a link that cannot be, or fewer      |
/// |                | devices than there are ranks                                       |
inline NetworkShape read_network(const std::string& path, int ranks) {
  const io::Json root = io::read_json(path);
  io::require_known_keys(root, network_keys, path);
  const profile::Network all = profile::network_from_json(root, path);
  if (all.devices < ranks) {
    throw DecodeError("reef::comm::read_network: ", path, ": latency_ms has ", all.devices,
                      " devices, but there are ", ranks,
                      " ranks.\n  fix: fewer ranks, or a case with more devices.");
  }
  profile::Network links = all.first(ranks);
  const NetworkShape shape(ranks, std::move(links.latencies), std::move(links.rates));
  const auto [up, down] = read_uplinks(root, ranks, path);
  return up.empty() ? shape : shape.with_uplinks(up, down);
}

}  // namespace reef::inline v0::comm
