#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::profile {

/// The links between devices, as planners read them: plain data.
///
/// | latencies, rates | (N, N) row-major, [from * N + to]; the diagonal is never read            |
/// | names            | one for each device, or none                                              |
struct Network {
  int devices = 0;
  std::vector<Seconds> latencies;  ///< one way
  std::vector<double> rates;       ///< bytes per second
  std::vector<std::string> names;

  [[nodiscard]] Seconds latency(int from, int to) const { return latencies[cell(from, to)]; }
  [[nodiscard]] double rate(int from, int to) const { return rates[cell(from, to)]; }

  /// A message of so many bytes over the link from one to the other: alpha + beta * bytes.
  [[nodiscard]] Seconds time(int from, int to, double bytes) const {
    return latency(from, to) + bytes / rate(from, to);
  }

  /// The device's name, or its number where it has none.
  [[nodiscard]] std::string name(int device) const {
    return names.empty() ? concat("device ", device) : names[static_cast<std::size_t>(device)];
  }

  /// Whether both directions of every link are the same.
  [[nodiscard]] bool is_symmetric() const {
    for (int a = 0; a < devices; ++a) {
      for (int b = 0; b < a; ++b) {
        if (latency(a, b) != latency(b, a) || rate(a, b) != rate(b, a)) return false;
      }
    }
    return true;
  }

  /// Both directions of a link have the mean of their latencies, and the mean of their rates.
  [[nodiscard]] Network averaged() const {
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

  /// The first so many devices and the links between them.
  [[nodiscard]] Network first(int count) const {
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

  /// Throws OptionError, naming the link, unless there is a device, sizes fit, latencies are from 0 to
  /// 1e6 s, and rates from 1 to 1e18 B/s.
  void validate() const {
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
        throw OptionError("reef::profile::Network: the link from ", from, " to ", to,
                          " has latency ", latency(from, to), " s and ", rate(from, to),
                          " B/s.\n  fix: latencies from 0 to 1e6 s, rates from 1 to 1e18 B/s.");
      }
    }
  }

  friend bool operator==(const Network&, const Network&) = default;

private:
  [[nodiscard]] std::size_t cell(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(devices) +
           static_cast<std::size_t>(to);
  }
};

}  // namespace reef::inline v0::profile
