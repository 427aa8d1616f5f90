#pragma once

#include <cmath>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The deadlines of a peer (a process of the job), in seconds. Each is longer than the one before: a peer must be heard
/// several times before it can be suspected, and suspected before a round of averaging gives up on that peer.
///
/// | beat     | the interval between two signs of life                                                         |
/// | suspect  | the silence after which a peer is suspected                                                    |
/// | exchange | the wait after which contributors whose data have not come are excluded from a round; a start: |
/// |          | adapted to the last rounds, and never below `suspect`                                          |
/// | round    | the wait after which a round that is not committed is reported                                 |
/// | job      | the time without a committed round after which a peer gives up; 0: never                       |
/// | join     | the time for which a peer that joins hears nobody who has the weights, after which it gives up, |
/// |          | 4 `suspect` at least; 0: never. It has no place in the order of the others                     |
/// | start    | the time for which the first round waits for as many peers as it is told to, after which a     |
/// |          | peer gives up; 0: never. It has no place in the order either                                   |
///
/// \code
/// swarm::Deadlines deadlines;
/// deadlines.suspect = 5;
/// deadlines.validate();
/// \endcode
struct Deadlines {
  Seconds beat = 0.25;
  Seconds suspect = 2.5;
  Seconds exchange = 30;
  Seconds round = 600;
  Seconds job = 0;
  Seconds join = 120;
  Seconds start = 600;

  friend bool operator==(const Deadlines&, const Deadlines&) = default;

  /// Throws OptionError that names the first pair of deadlines in the wrong order.
  void validate() const {
    const auto require_order = [](const char* shorter, Seconds a, const char* longer, Seconds b) {
      if (a > 0 && a < b && std::isfinite(b)) return;
      throw OptionError(
          "reef::swarm::Deadlines: ", shorter, " is ", a, " s and ", longer, " is ", b,
          " s.\n  why: what waits longer builds on what waits less.\n  fix: 0 < beat < suspect < exchange "
          "< round, and round < job unless job is 0.");
    };
    require_order("beat", beat, "suspect", suspect);
    require_order("suspect", suspect, "exchange", exchange);
    require_order("exchange", exchange, "round", round);
    if (job != 0) require_order("round", round, "job", job);
  }
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
