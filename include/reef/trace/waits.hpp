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

/// What computation waited for.
struct Wait {
  std::string what;  ///< "activation": what came last of all, without its numbers
  Seconds seconds = 0;
  std::uint64_t times = 0;
};

/// How the computation of one rank spent a stretch of time. In a pipeline `bubble` is the stage's share of the bubble.
struct Waits {
  int rank = 0;
  Seconds busy = 0;
  Seconds wall = 0;
  std::vector<Wait> waits{};  ///< the longest first; together what is not busy

  [[nodiscard]] double bubble() const { return wall > 0 ? 1 - busy / wall : 0; }
};

/// Each gap in what a rank computes from `from` to `to` goes to what the computation behind it waited for: its cause,
/// and the cause of that where it too began in the gap, back to what was under way before.
///
/// | cost | O(spans log spans) |
///
/// \code
/// // given: const trace::Recording& recording
/// const trace::Waits stage = trace::waits_of(recording, 0, 60);
/// const double bubble = stage.bubble();
/// \endcode
Waits waits_of(const Recording& recording, Seconds from, Seconds to);

/// What went from one rank to another as messages with two ends.
struct LinkUse {
  int from = 0;
  int to = 0;
  std::uint64_t messages = 0;
  Bytes bytes = 0;
  Seconds median = 0;  ///< from the moment at which a message was to leave until all of it was there
};

/// Of messages that arrived from `from` to `to`, by sender and receiver. Of a message whose other end was not recorded
/// nothing is known.
std::vector<LinkUse> links_of(std::span<const Recording> recordings, Seconds from, Seconds to);

}  // namespace trace
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trace/waits.ipp>
#endif
