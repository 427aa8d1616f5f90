#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

/// A cause for which computation waited, and the total time and number of these waits.
struct Wait {
  /// Name of the last trace span (an instruction or message) waited for, without its numbers, such as "activation".
  std::string what;
  Seconds seconds = 0;
  std::uint64_t times = 0;
};

/// The use of a time range by the computation of one rank. In a pipeline bubble() is the fraction of idle time of its
/// stage.
struct Waits {
  int rank = 0;
  Seconds busy = 0;
  Seconds wall = 0;
  /// Causes of waits, the longest first; the sum of their times is the time that is not busy.
  std::vector<Wait> waits{};

  [[nodiscard]] double bubble() const { return wall > 0 ? 1 - busy / wall : 0; }
};

/// Attributes each gap in a rank's computation in [from, to) to causes: to the span for which the computation after the
/// gap waited, to the cause of that span if it too began in the gap, and so on back to a span that began before the
/// gap.
///
/// | cost | O(spans log spans) |
///
/// \code
/// // given: const trace::Recording& recording
/// const trace::Waits stage = trace::waits_of(recording, 0, 60);
/// const double bubble = stage.bubble();
/// \endcode
Waits waits_of(const Recording& recording, Seconds from, Seconds to);

/// The use of a link: counts, bytes and delays of the messages from one rank to another of which both ends are
/// recorded.
struct LinkUse {
  int from = 0;
  int to = 0;
  std::uint64_t messages = 0;
  Bytes bytes = 0;
  Seconds median = 0;  ///< the median time in seconds from a message's readiness at the sender to its complete arrival
};

/// Returns the use of each link, in order of sender and receiver, by messages that
/// arrived in [from, to). A message of which one end is not recorded does not count.
std::vector<LinkUse> links_of(std::span<const Recording> recordings, Seconds from, Seconds to);

}  // namespace trace
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trace/waits.ipp>
#endif
