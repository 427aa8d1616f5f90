#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/network_shape.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/profile/network_json.hpp>

namespace reef::inline v0::comm {

/// The keys of a network's case: its links, and what planners read of the same file.
inline constexpr std::array<std::string_view, 9> network_keys{
    "latency_ms", "bandwidth_gbps", "uplink_gbps", "downlink_gbps", "devices",
    "D_PP",       "D_DP",           "c_pp_bytes",  "c_dp_bytes"};

/// One number for all devices, or a list with one for each, of 10^9 bits per second: in bytes per
/// second, of the first `ranks`. Nothing where there is no such key. Throws DecodeError, with what was
/// found and where, unless they are enough and each is from 1e-9 to 1e12.
inline std::vector<double> read_uplinks(const io::Json& network, const char* key, int ranks,
                                        const std::string& file) {
  if (!network.contains(key)) return {};
  const io::Json& found = network[key];
  const auto refuse = [&](const auto&... why) {
    throw DecodeError(
        "reef::comm::read_uplinks: ", file, ": ", key, why...,
        ".\n  fix: a number of Gbit/s above 0 for all, or a list with one for each of "
        "the ",
        ranks, " devices; without the key their links share nothing.");
  };
  const auto rate_of = [&](const io::Json& value, const std::string& where) {
    std::string shown = value.dump(-1, ' ', false, io::Json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    if (!value.is_number()) refuse(where, " is ", shown, ", which is no number");
    const auto rate = value.get<double>();
    if (!within(rate, 1e-9, 1e12))
      refuse(where, " is ", shown, ", not a rate from 1e-9 to 1e12 Gbit/s");
    return rate * 1e9 / 8;
  };
  const auto wanted = static_cast<std::size_t>(ranks);
  if (!found.is_array()) return std::vector<double>(wanted, rate_of(found, ""));
  if (found.size() < wanted) refuse(" has ", found.size(), " numbers for ", ranks, " devices");
  std::vector<double> rates;
  for (std::size_t i = 0; i < found.size(); ++i)
    rates.push_back(rate_of(found[i], concat("[", i, "]")));
  rates.resize(wanted);
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
