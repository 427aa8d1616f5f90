#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/network_shape.hpp>
#include <reef/core/error.hpp>
#include <reef/io/json.hpp>

namespace reef::inline v0::comm {

/// The keys of a network: its links, what reef-measure writes beside them, and what planners read of the same case.
inline constexpr std::array<std::string_view, 16> network_keys{
    "latency_ms",      "bandwidth_gbps", "uplink_gbps",        "downlink_gbps", "devices",
    "reciprocal_gbps", "device_flops",   "device_memory_gbps", "model_flops",   "D_PP",
    "D_DP",            "c_pp_bytes",     "c_dp_bytes",         "seed",          "regions",
    "workload_note"};

/// One number for all devices, or a list with one for each, of 10^9 bits per second: in bytes per
/// second, of the first `ranks`. Nothing where there is no such key. Throws DecodeError, with what was
/// found and where, unless they are enough and each is from 1e-9 to 1e12.
std::vector<double> read_uplinks(const io::Json& network, const char* key, int ranks,
                                 const std::string& file);

/// The rates of both directions: uplink_gbps, and downlink_gbps or, where that is missing, uplink_gbps again.
std::pair<std::vector<double>, std::vector<double>> read_uplinks(const io::Json& network, int ranks,
                                                                 const std::string& file);

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
///
/// \code
/// // given: const comm::Communicator& world
/// comm::ProgressOptions options;
/// options.network = comm::read_network("case.json", world.size());
/// \endcode
NetworkShape read_network(const std::string& path, int ranks);

}  // namespace reef::inline v0::comm

#ifndef REEF_COMPILED
#include <reef/comm/network_file.ipp>
#endif
