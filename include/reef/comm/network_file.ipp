#pragma once

#include <algorithm>
#include <cstddef>

#include <reef/comm/network_file.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/profile/network_json.hpp>

namespace reef::inline v0::comm {

REEF_INLINE std::vector<double> read_uplinks(const io::Json& network, const char* key, int ranks,
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

REEF_INLINE std::pair<std::vector<double>, std::vector<double>> read_uplinks(
    const io::Json& network, int ranks, const std::string& file) {
  std::vector<double> up = read_uplinks(network, "uplink_gbps", ranks, file);
  std::vector<double> down = read_uplinks(network, "downlink_gbps", ranks, file);
  if (down.empty()) down = up;
  if (up.empty() && !down.empty()) {
    throw DecodeError("reef::comm::read_uplinks: ", file,
                      ": downlink_gbps without uplink_gbps.\n  fix: both, or uplink_gbps alone.");
  }
  return {std::move(up), std::move(down)};
}

REEF_INLINE NetworkShape read_network(const std::string& path, int ranks) {
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
