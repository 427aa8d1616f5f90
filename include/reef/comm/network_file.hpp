#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/network_shape.hpp>
#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>

namespace reef::inline v0::comm {

/// The keys of a network's case: its links, and what planners read of the same file.
inline constexpr std::array<std::string_view, 7> network_keys{
    "latency_ms", "bandwidth_gbps", "devices", "D_PP", "D_DP", "c_pp_bytes", "c_dp_bytes"};

/// Reads the links between the first `ranks` devices of a case: rank r is device r.
///
/// | latency_ms     | square matrix, milliseconds one way                                |
/// | bandwidth_gbps | square matrix of the same size, 10^9 bits per second               |
/// | errors         | FileError if it cannot be read; DecodeError if it is no such case, |
/// |                | has a key that nothing reads, or fewer devices than there are      |
/// |                | ranks; OptionError, with the file, for a link that cannot be       |
inline NetworkShape read_network(const std::string& path, int ranks) {
  const io::Json root = io::read_json(path);
  io::require_known_keys(root, network_keys, path);
  const auto matrix = [&](const char* key, double unit) {
    const auto rows = io::require<std::vector<std::vector<double>>>(root, key, path);
    const auto refuse = [&](const std::string& why, const char* fix) {
      throw DecodeError("reef::comm::read_network: ", path, ": ", key, why, ".\n  fix: ", fix);
    };
    const auto wanted = static_cast<std::size_t>(ranks);
    if (rows.size() < wanted) {
      refuse(concat(" has ", rows.size(), " devices, but there are ", ranks, " ranks"),
             "fewer ranks, or a case with more devices.");
    }
    std::vector<double> values;
    values.reserve(wanted * wanted);
    for (std::size_t row = 0; row < wanted; ++row) {
      if (rows[row].size() != rows.size()) {
        refuse(concat("[", row, "] has ", rows[row].size(), " numbers in a matrix of ", rows.size(),
                      " rows"),
               "a row for each device, with a number for each device.");
      }
      for (std::size_t column = 0; column < wanted; ++column) {
        values.push_back(rows[row][column] * unit);
      }
    }
    return values;
  };
  std::vector<double> latency = matrix("latency_ms", 1e-3);
  std::vector<double> bandwidth = matrix("bandwidth_gbps", 1e9 / 8);
  try {
    return {ranks, std::move(latency), std::move(bandwidth)};
  } catch (const OptionError& error) {
    throw OptionError("reef::comm::read_network: ", path, ": ", error.what());
  }
}

}  // namespace reef::inline v0::comm
