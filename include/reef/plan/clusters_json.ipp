#pragma once

#include <algorithm>
#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/plan/clusters_json.hpp>
#include <reef/profile/network_json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE ClusterCase clusters_from_json(const io::Json& json, std::string_view source) {
  using Keys = std::vector<std::string_view>;
  const bool is_network = json.contains("latency_ms") || json.contains("bandwidth_gbps");
  Keys known = is_network ? Keys{"n", "latency_ms", "bandwidth_gbps", "devices"}
                          : Keys{"n", "bandwidth", "unit"};
  if (is_network)
    known.insert(known.end(), profile::measured_keys.begin(), profile::measured_keys.end());
  io::require_known_keys(json, known, source);
  ClusterCase result;
  if (is_network) {
    result.bandwidths = profile::network_from_json(json, source).rates;
    for (double& bandwidth : result.bandwidths) bandwidth *= 8e-9;
    result.unit = "Gbit/s";
  } else {
    result.bandwidths = profile::square_from_json(json, "bandwidth", source, 1, 0, 1e30);
    result.unit = io::value_or<std::string>(json, "unit", "", source);
  }
  const char* const key = is_network ? "bandwidth_gbps" : "bandwidth";
  const std::size_t n = json[key].size();
  const auto devices = io::value_or<std::size_t>(json, "n", n, source);
  if (n == 0 || n > static_cast<std::size_t>(max_clustered_devices) || devices != n) {
    throw DecodeError("reef::plan: ", source, ": 'n' is ", devices, " and '", key, "' has ", n,
                      " rows.\n  fix: a row for each device, 1 to ", max_clustered_devices, ".");
  }
  result.devices = static_cast<int>(n);
  std::vector<char> reached(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i != j && result.bandwidths[i * n + j] > 0) reached[i] = reached[j] = 1;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j || reached[i] == 0 || reached[j] == 0 || result.bandwidths[i * n + j] > 0)
        continue;
      throw DecodeError(
          "reef::plan: ", source, ": bandwidth[", i, "][", j,
          "] is 0.\n  fix: a number above 0; only a device without any link has zeros.");
    }
  }
  return result;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
