#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The input of clusters(), a partition of devices by bandwidth, in a file: devices, and the bandwidths between them.
struct ClusterCase {
  int devices = 0;
  std::vector<double> bandwidths;  ///< bandwidths, (devices, devices) row-major, in any unit
  std::string unit;                ///< the unit of the bandwidths; empty: the file names none
};

/// Reads devices and the bandwidths between them from JSON, for clusters().
///
/// | bandwidth | square matrix, above 0 outside the diagonal; all 0 for a device without any link  |
/// | n, unit   | the number of devices, and the unit of bandwidths; may be left out                |
/// | network   | instead of bandwidth: latency_ms, bandwidth_gbps, devices; only bandwidths count: |
/// |           | see network_from_json                                                             |
/// | errors    | DecodeError, naming the entry                                                     |
///
/// \code
/// const io::Json json = io::read_json("network.json");
/// const plan::ClusterCase devices = plan::clusters_from_json(json, "network.json");
/// \endcode
ClusterCase clusters_from_json(const io::Json& json, std::string_view source);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/clusters_json.ipp>
#endif
