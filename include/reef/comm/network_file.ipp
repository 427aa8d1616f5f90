#pragma once

#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include <reef/comm/network_file.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/profile/network_json.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

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

namespace detail {

/// The network, an object. Throws DecodeError where there is none.
inline io::Json network_at(const io::Json& root, const std::string& at, const std::string& file) {
  io::Json network = at.empty() ? root : io::require<io::Json>(root, at, file);
  io::require_object(network, at, file);
  return network;
}

/// How many `devices` says there are: a number, or their names.
inline int devices_at(const io::Json& root, const std::string& key, const std::string& file) {
  const auto given = io::require<std::variant<int, std::vector<std::string>>>(root, key, file);
  return std::holds_alternative<int>(given) ? std::get<0>(given)
                                            : static_cast<int>(std::get<1>(given).size());
}

/// "network.ranks"
inline std::string key_at(const std::string& at, std::string_view key) {
  return concat(at, at.empty() ? "" : ".", key);
}

[[noreturn]] inline void refuse_network(const std::string& file, const std::string& why, const std::string& fix) {
  throw DecodeError("reef::comm::read_network: ", file, ": ", why, ".\n  fix: ", fix, ".");
}

/// Of the first `ranks` devices what `key` says of each link, times `unit`: of a number, or of a matrix with a row
/// for each of the network's devices.
inline std::vector<double> values_of_links(const io::Json& root, const std::string& key, const std::string& file,
                                           std::optional<int> devices, int ranks, double unit, double least,
                                           double most) {
  const auto n = static_cast<std::size_t>(ranks);
  using Rows = std::vector<std::vector<double>>;
  const auto given = io::require<std::variant<double, Rows>>(root, key, file);
  if (const double* const all = std::get_if<double>(&given)) {
    if (!within(*all, least, most))
      refuse_network(file, concat(key, " is ", *all), concat("a link that can be, from ", least, " to ", most));
    return std::vector<double>(n * n, *all * unit);
  }
  const std::vector<double> square = profile::square_from_json(root, key.c_str(), file, unit, least, most);
  const std::size_t rows = std::get<Rows>(given).size();
  if (rows != static_cast<std::size_t>(devices.value_or(0)))
    refuse_network(file, concat(key, " has ", rows, " rows for ", devices.value_or(0), " ranks"),
                   "a row for each rank");
  std::vector<double> values;
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) values.push_back(from == to ? 0 : square[from * rows + to]);
  }
  return values;
}

}  // namespace detail

REEF_INLINE std::optional<int> ranks_of_network(const io::Json& root, const std::string& at, const std::string& file) {
  const io::Json network = detail::network_at(root, at, file);
  if (network.contains("ranks")) return io::require<int>(root, detail::key_at(at, "ranks"), file);
  for (const char* const key : {"latency_ms", "bandwidth_gbps"}) {
    if (network.contains(key) && network[key].is_array()) return static_cast<int>(network[key].size());
  }
  if (!network.contains("devices")) return {};
  return detail::devices_at(root, detail::key_at(at, "devices"), file);
}

REEF_INLINE profile::Network links_from_json(const io::Json& root, const std::string& at, const std::string& file,
                                             int ranks) {
  const io::Json network = detail::network_at(root, at, file);
  io::require_known_keys(network, network_keys, file, at);
  const std::optional<int> devices = ranks_of_network(root, at, file);
  if (devices && *devices < ranks) {
    detail::refuse_network(file, concat("the network has ", *devices, " devices, but there are ", ranks, " ranks"),
                           "fewer ranks, or a case with more devices");
  }
  if (network.contains("devices")) {
    const std::string key = detail::key_at(at, "devices");
    const int named = detail::devices_at(root, key, file);
    if (named != devices)
      detail::refuse_network(file, concat(key, " says ", named, ", and the network has ", *devices), "as many");
  }
  profile::Network links = profile::Network::uniform(ranks, 0, profile::Network::max_rate);
  std::tie(links.uplinks, links.downlinks) = read_uplinks(network, ranks, file);
  const auto values = [&](const char* key, double unit, double least, double most) {
    return detail::values_of_links(root, detail::key_at(at, key), file, devices, ranks, unit, least, most);
  };
  if (network.contains("latency_ms")) links.latencies = values("latency_ms", 1e-3, 0, 1e9);
  // Without either a message would take no time.
  if (network.contains("bandwidth_gbps") || (ranks > 1 && !links.has_uplinks()))
    links.rates = values("bandwidth_gbps", 1e9 / 8, 8e-9, 8e9);
  return links;
}

REEF_INLINE profile::Network read_network(const std::string& path, int ranks) {
  return links_from_json(io::read_json(path), "", path, ranks);
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
