#pragma once

#include <utility>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The size and number of the messages that are sent over each probed link.
struct ProbeOptions {
  Bytes bytes = Bytes{256} << 10;  ///< size of the large messages; the small ones have one byte
  int repeats = 3;                 ///< number of messages of each size; the least of their times counts
};

/// The measured figures of a link: a message of n bytes takes latency + n / bytes_per_second.
struct ProbedLink {
  Seconds latency = 0;          ///< half the round-trip time of the smallest message, in seconds
  double bytes_per_second = 0;  ///< bytes per second; 0: a large message took no longer than a small one
};

/// Measures the latency and rate of links as they are now, from sender to receiver: a message is sent, and answered by
/// a byte.
///
///     latency = t(1) / 2    rate = (bytes - 1) / (t(bytes) - t(1))    t: round trip, the least of the repeats
///
/// | who    | all ranks, with the same links and options; all get the same result. Blocks                        |
/// | order  | a rank measures its own links one after the other, in the given order, while other ranks           |
/// |        | measure theirs                                                                                     |
/// | clocks | each link is measured by the clock of one rank                                                     |
/// | noise  | a first message may wait for a receiver that is late: with one repeat, that counts as latency, and |
/// |        | may hide the rate                                                                                  |
/// | cost   | `repeats` messages of each of the two sizes, and their answers, for each link                      |
/// | errors | OptionError for a link of a rank that does not exist or to itself, and for invalid options         |
///
/// \code
/// // given: comm::Progress& progress
/// const std::vector<comm::ProbedLink> now = comm::probe_links(progress, {{0, 1}, {1, 0}});
/// const Seconds of_a_megabyte = now[0].latency + 1e6 / now[0].bytes_per_second;
/// \endcode
std::vector<ProbedLink> probe_links(Progress& progress, const std::vector<std::pair<int, int>>& links,
                                    const ProbeOptions& options = {});

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/link_probe.ipp>
#endif
