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

/// The keys of a network: its links, those that reef-measure writes beside them, and those that planners read of the
/// same case.
inline constexpr std::array<std::string_view, 17> network_keys{
    "ranks",           "latency_ms",   "bandwidth_gbps",     "uplink_gbps", "downlink_gbps", "devices",
    "reciprocal_gbps", "device_flops", "device_memory_gbps", "model_flops", "D_PP",          "D_DP",
    "c_pp_bytes",      "c_dp_bytes",   "seed",               "regions",     "workload_note"};

/// Returns the rates of the first `ranks` devices in bytes per second, from one number for all devices, or a list with
/// one for each, of 10^9 bits per second; nothing where there is no such key. Throws DecodeError, with the value found
/// and its place, unless there are enough and each is from 1e-9 to 1e12.
std::vector<double> read_uplinks(const io::Json& network, const char* key, int ranks,
                                 const std::string& file);

/// Returns the rates of both directions: uplink_gbps, and downlink_gbps or, where that is missing, uplink_gbps again.
std::pair<std::vector<double>, std::vector<double>> read_uplinks(const io::Json& network, int ranks,
                                                                 const std::string& file);

/// Returns the number of ranks of a network: `ranks`, or the number of rows of its matrices or of its devices; nothing
/// where it has links between any. `at` is the dotted path of the network in `root`, empty where `root` is the network.
std::optional<int> ranks_of_network(const io::Json& root, const std::string& at, const std::string& file);

/// Reads the first `ranks` devices of a network; `at` as in ranks_of_network.
///
/// | ranks          | how many there are; may be left out where matrices say it, or any will do |
/// | latency_ms     | milliseconds one way: one number for all links, or a square matrix, from a |
/// |                | row's rank to a column's; 0 where it is not there                  |
/// | bandwidth_gbps | as latency_ms, in 10^9 bits per second; Network::max_rate where it is not there, as it may be |
/// |                | where uplink_gbps is                                               |
/// | uplink_gbps    | may be there: what all links of a device carry together, sending; a number |
/// |                | for all devices, or a list with one for each                       |
/// | downlink_gbps  | as uplink_gbps, receiving; equal to it where it is not there       |
/// | devices        | names, or how many there are; may be left out                      |
/// | errors         | DecodeError, with the file, if it is no such network, has a key that nothing |
/// |                | reads, a link that cannot be, or fewer devices than there are ranks |
profile::Network links_from_json(const io::Json& root, const std::string& at, const std::string& file, int ranks);

/// Reads a network that is a file of its own, as links_from_json does: rank r is device r. FileError if it cannot be read.
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
