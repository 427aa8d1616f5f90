#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/io/json.hpp>
#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The keys that a file of a network may have: its links, the figures that reef-measure writes beside them, and the
/// members that planners read from the same file.
inline constexpr std::array<std::string_view, 17> network_keys{
    "ranks",           "latency_ms",   "bandwidth_gbps",     "uplink_gbps", "downlink_gbps", "devices",
    "reciprocal_gbps", "device_flops", "device_memory_gbps", "model_flops", "D_PP",          "D_DP",
    "c_pp_bytes",      "c_dp_bytes",   "seed",               "regions",     "workload_note"};

/// Returns the rates of the first `ranks` devices in bytes per second; an empty list if the network has no member
/// `key`. In the file, that is one number for all devices or a list with one for each, in 10^9 bits per second. Throws
/// DecodeError, with the value found and its place, unless there are enough numbers and each is from 1e-9 to 1e12.
std::vector<double> read_uplinks(const io::Json& network, const char* key, int ranks,
                                 const std::string& file);

/// Reads the rates at which devices send and receive in all, in bytes per second: uplink_gbps of a network file, and
/// downlink_gbps or, without that, uplink_gbps again.
std::pair<std::vector<double>, std::vector<double>> read_uplinks(const io::Json& network, int ranks,
                                                                 const std::string& file);

/// Returns the number of ranks that a network states: `ranks`, or the number of rows of its matrices or of its devices;
/// nothing if it states one link for any two devices. `at` is the dotted path of the network in `root`, empty if `root`
/// is the network.
std::optional<int> ranks_of_network(const io::Json& root, const std::string& at, const std::string& file);

/// Reads the first `ranks` devices of a network; `at` as in ranks_of_network.
///
/// | ranks          | the number of ranks; may be left out if matrices state it, or any number will do                |
/// | latency_ms     | milliseconds one way: one number for all links, or a square matrix [from][to]; 0 if left out    |
/// | bandwidth_gbps | as latency_ms, in 10^9 bits per second; may be left out beside uplink_gbps, and is then         |
/// |                | Network::max_rate                                                                               |
/// | uplink_gbps    | what all links of a device carry together, sending: a number for all devices, or a list with    |
/// |                | one for each; may be left out                                                                   |
/// | downlink_gbps  | as uplink_gbps, receiving; equal to uplink_gbps if left out                                     |
/// | devices        | the names of devices, or their number; may be left out                                          |
/// | errors         | DecodeError, with the file, if it is not such a network, has an unknown key or an impossible    |
/// |                | link, or has fewer devices than there are ranks                                                 |
profile::Network links_from_json(const io::Json& root, const std::string& at, const std::string& file, int ranks);

/// Reads a file that contains a network alone, as links_from_json does: rank r is device r. Throws FileError if the
/// file cannot be read.
///
/// \code
/// // given: const comm::Communicator& world
/// comm::ProgressOptions options;
/// options.network = comm::read_network("case.json", world.size());
/// \endcode
profile::Network read_network(const std::string& path, int ranks);

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/network_file.ipp>
#endif
