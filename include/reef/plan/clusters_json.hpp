#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/profile/network_json.hpp>

namespace reef::inline v0::plan {

/// Devices to cluster, by the bandwidths between them.
struct ClusterCase {
  int devices = 0;
  std::vector<double> bandwidths;  ///< (devices, devices) row-major, in any unit
};

/// Reads what clusters are made of.
///
/// | bandwidth | square matrix, above 0 outside the diagonal; all 0 for a device that none reaches  |
/// | n         | how many devices; may be left out                                                  |
/// | errors    | DecodeError, naming the entry                                                      |
inline ClusterCase clusters_from_json(const io::Json& json, std::string_view source) {
  io::require_known_keys(json, std::array<std::string_view, 2>{"n", "bandwidth"}, source);
  ClusterCase result;
  result.bandwidths = profile::square_from_json(json, "bandwidth", source, 1, 0, 1e30);
  const std::size_t n = json["bandwidth"].size();
  const auto devices = io::value_or<std::size_t>(json, "n", n, source);
  if (n == 0 || n > static_cast<std::size_t>(most_clustered_devices) || devices != n) {
    throw DecodeError("reef::plan: ", source, ": 'n' is ", devices, " and 'bandwidth' has ", n,
                      " rows.\n  fix: a row for each device, 1 to ", most_clustered_devices, ".");
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

}  // namespace reef::inline v0::plan
