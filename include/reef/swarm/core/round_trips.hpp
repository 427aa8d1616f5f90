#pragma once

#include <map>
#include <optional>
#include <string>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// Round-trip times to other processes, smoothed as they are measured.
///
///     r <- 0.2 measured + 0.8 r      in place of an r that is infinite: measured
///
/// | infinite | a process that does not answer: its time is infinite until it is measured again |
/// | lasts    | 300 s without a measurement, then the time is not known                         |
///
/// Source: Petals, arXiv 2312.08361, the public code.
///
/// \code
/// swarm::core::RoundTrips trips;
/// trips.measured("a", 0.1, 0.0);
/// trips.measured("a", 0.2, 2.0);
/// const std::optional<Seconds> found = trips.find("a", 3.0);  // 0.12
/// \endcode
class RoundTrips {
public:
  /// Notes a time in seconds, from 0 to infinity.
  void measured(const std::string& server, Seconds seconds, Seconds now);

  [[nodiscard]] std::optional<Seconds> find(const std::string& server, Seconds now) const;

private:
  struct Trip {
    Seconds seconds = 0;
    Seconds at = 0;
  };
  static constexpr Seconds lasts = 300;

  std::map<std::string, Trip> trips_{};
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/round_trips.ipp>
#endif
