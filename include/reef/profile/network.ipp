#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

REEF_INLINE Network Network::uniform(int devices, Seconds latency, double rate) {
  const auto count = static_cast<std::size_t>((std::max)(devices, 0));
  Network network{.devices = devices,
                  .latencies = std::vector<Seconds>(count * count, latency),
                  .rates = std::vector<double>(count * count, rate)};
  network.validate();
  return network;
}

REEF_INLINE Network Network::with_uplinks(std::vector<double> up, std::vector<double> down) const {
  Network network = *this;
  network.uplinks = std::move(up);
  network.downlinks = std::move(down);
  network.validate();
  return network;
}

REEF_INLINE Network Network::without_uplinks() const {
  Network network = *this;
  network.uplinks.clear();
  network.downlinks.clear();
  return network;
}

REEF_INLINE bool Network::is_symmetric() const {
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < a; ++b) {
      if (latency(a, b) != latency(b, a) || rate(a, b) != rate(b, a)) return false;
    }
  }
  return true;
}

REEF_INLINE Network Network::averaged() const {
  Network result = *this;
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < devices; ++b) {
      if (a == b) continue;
      result.latencies[cell(a, b)] = (latency(a, b) + latency(b, a)) / 2;
      result.rates[cell(a, b)] = (rate(a, b) + rate(b, a)) / 2;
    }
  }
  return result;
}

REEF_INLINE Network Network::first(int count) const {
  Network result{.devices = count};
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      result.latencies.push_back(latency(from, to));
      result.rates.push_back(rate(from, to));
    }
  }
  if (!names.empty()) result.names.assign(names.begin(), names.begin() + count);
  if (has_uplinks()) {
    result.uplinks.assign(uplinks.begin(), uplinks.begin() + count);
    result.downlinks.assign(downlinks.begin(), downlinks.begin() + count);
  }
  return result;
}

REEF_INLINE void Network::validate() const {
  const std::size_t cells =
      devices < 0 ? 0 : static_cast<std::size_t>(devices) * static_cast<std::size_t>(devices);
  if (devices < 1 || latencies.size() != cells || rates.size() != cells ||
      (!names.empty() && names.size() != static_cast<std::size_t>(devices))) {
    throw OptionError("reef::profile::Network: ", devices, " devices have ", latencies.size(),
                      " latencies, ", rates.size(), " rates and ", names.size(),
                      " names.\n  fix: one of each link, and a name for each device or none.");
  }
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      if (from == to) continue;
      if (within(latency(from, to), 0, 1e6) && within(rate(from, to), 1, max_rate)) continue;
      throw OptionError("reef::profile::Network: the link from ", from, " to ", to, " has latency ",
                        latency(from, to), " s and ", rate(from, to),
                        " B/s.\n  fix: latencies from 0 to 1e6 s, rates from 1 to 1e18 B/s.");
    }
  }
  if (uplinks.empty() && downlinks.empty()) return;
  const auto count = static_cast<std::size_t>(devices);
  if (uplinks.size() != count || downlinks.size() != count) {
    throw OptionError("reef::profile::Network: ", devices, " devices have ", uplinks.size(), " uplinks and ",
                      downlinks.size(), " downlinks.\n  fix: one of both for each device, or none.");
  }
  const auto is_rate = [](double value) { return is_finite(value) && value > 0; };
  for (int device = 0; device < devices; ++device) {
    if (is_rate(uplink(device)) && is_rate(downlink(device))) continue;
    throw OptionError("reef::profile::Network: device ", device, " has an uplink of ", uplink(device),
                      " B/s and a downlink of ", downlink(device), " B/s.\n  fix: finite rates above 0 B/s.");
  }
}

REEF_INLINE std::size_t Network::cell(int from, int to) const {
  return static_cast<std::size_t>(from) * static_cast<std::size_t>(devices) +
         static_cast<std::size_t>(to);
}

}  // namespace profile
}  // namespace v0
}  // namespace reef
