#pragma once

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

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
  Network result{.devices = count, .latencies = {}, .rates = {}, .names = {}};
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      result.latencies.push_back(latency(from, to));
      result.rates.push_back(rate(from, to));
    }
  }
  if (!names.empty()) result.names.assign(names.begin(), names.begin() + count);
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
      if (within(latency(from, to), 0, 1e6) && within(rate(from, to), 1, 1e18)) continue;
      throw OptionError("reef::profile::Network: the link from ", from, " to ", to, " has latency ",
                        latency(from, to), " s and ", rate(from, to),
                        " B/s.\n  fix: latencies from 0 to 1e6 s, rates from 1 to 1e18 B/s.");
    }
  }
}

REEF_INLINE std::size_t Network::cell(int from, int to) const {
  return static_cast<std::size_t>(from) * static_cast<std::size_t>(devices) +
         static_cast<std::size_t>(to);
}

}  // namespace profile
}  // namespace v0
}  // namespace reef
