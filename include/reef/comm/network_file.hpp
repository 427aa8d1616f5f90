#pragma once

#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <reef/comm/network_shape.hpp>
#include <reef/core/error.hpp>

namespace reef::inline v0::comm {

/// Reads the links between the first `ranks` devices of a case: rank r is device r.
///
/// | latency_ms     | square matrix, milliseconds one way                                |
/// | bandwidth_gbps | square matrix of the same size, 10^9 bits per second               |
/// | errors         | FileError if it cannot be read; DecodeError if it is no such case, |
/// |                | or has fewer devices than there are ranks                          |
inline NetworkShape read_network(const std::string& path, int ranks) {
  std::ifstream file(path);
  if (!file) throw FileError("reef::comm::read_network: cannot open ", path, ".");
  const nlohmann::json root = nlohmann::json::parse(file, nullptr, false);
  const auto refuse = [&path](const std::string& why) -> void {
    throw DecodeError("reef::comm::read_network: ", path, ": ", why);
  };
  if (!root.is_object()) refuse("not a JSON object.");

  const auto matrix = [&](const char* key, double unit) {
    const auto found = root.find(key);
    if (found == root.end() || !found->is_array()) refuse(concat("no matrix ", key, "."));
    const auto wanted = static_cast<std::size_t>(ranks);
    if (found->size() < wanted) {
      refuse(concat(key, " has ", found->size(), " devices, but there are ", ranks, " ranks."));
    }
    std::vector<double> values;
    values.reserve(wanted * wanted);
    for (std::size_t row = 0; row < wanted; ++row) {
      const nlohmann::json& line = (*found)[row];
      if (!line.is_array() || line.size() != found->size()) {
        refuse(concat(key, "[", row, "] is not a row of a square matrix."));
      }
      for (std::size_t column = 0; column < wanted; ++column) {
        if (!line[column].is_number()) {
          refuse(concat(key, "[", row, "][", column, "] is not a number."));
        }
        values.push_back(line[column].get<double>() * unit);
      }
    }
    return values;
  };
  std::vector<double> latency = matrix("latency_ms", 1e-3);
  std::vector<double> bandwidth = matrix("bandwidth_gbps", 1e9 / 8);
  return {ranks, std::move(latency), std::move(bandwidth)};
}

}  // namespace reef::inline v0::comm
