#pragma once

#include <cstddef>
#include <string>
#include <variant>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/profile/network_json.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

REEF_INLINE std::vector<double> square_from_json(const io::Json& json, const char* key,
                                                 std::string_view source, double unit, double least,
                                                 double most) {
  const auto rows = io::require<std::vector<std::vector<double>>>(json, key, source);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].size() == rows.size()) continue;
    throw DecodeError("reef::profile: ", source, ": ", key, "[", row, "] has ", rows[row].size(),
                      " numbers in a matrix of ", rows.size(),
                      " rows.\n  fix: a row for each device, with a number for each device.");
  }
  std::vector<double> values;  // no larger than what was read
  values.reserve(rows.size() * rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < rows.size(); ++column) {
      const double value = rows[row][column];
      if (row != column && !within(value, least, most)) {
        throw DecodeError("reef::profile: ", source, ": ", key, "[", row, "][", column, "] is ",
                          value, ".\n  fix: a number from ", least, " to ", most, ".");
      }
      values.push_back(value * unit);
    }
  }
  return values;
}

REEF_INLINE Network network_from_json(const io::Json& json, std::string_view source) {
  Network network;
  network.latencies = square_from_json(json, "latency_ms", source, 1e-3, 0, 1e9);
  network.rates = square_from_json(json, "bandwidth_gbps", source, 1e9 / 8, 8e-9, 8e9);
  const std::size_t devices = json["latency_ms"].size();
  const auto refuse = [&](const std::string& why) {
    throw DecodeError("reef::profile: ", source, ": ", why,
                      ".\n  fix: latency_ms, bandwidth_gbps and devices of the same devices.");
  };
  if (devices == 0) refuse("latency_ms has no devices");
  if (network.latencies.size() != network.rates.size()) {
    refuse(concat("latency_ms has ", devices, " rows and bandwidth_gbps ",
                  json["bandwidth_gbps"].size()));
  }
  network.devices = static_cast<int>(devices);
  if (json.contains("devices")) {
    const auto given =
        io::require<std::variant<std::size_t, std::vector<std::string>>>(json, "devices", source);
    if (const auto* const names = std::get_if<1>(&given)) network.names = *names;
    const std::size_t named =
        std::holds_alternative<std::size_t>(given) ? std::get<0>(given) : network.names.size();
    if (named != devices) refuse(concat("devices says ", named, ", latency_ms has ", devices));
  }
  return network;
}

}  // namespace profile
}  // namespace v0
}  // namespace reef
