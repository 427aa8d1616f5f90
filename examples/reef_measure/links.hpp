#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/core/units.hpp>

namespace reef_examples {

struct LinkOptions {
  std::vector<reef::Bytes> sizes;  ///< of messages, ascending, two at least
  int repeats = 10;                ///< of each size
  reef::Seconds seconds = 60;      ///< for all links together
};

/// What was measured of all ordered pairs of ranks: (P, P) row-major, [from * P + to], zero on the diagonal.
struct Links {
  std::vector<reef::Seconds> latencies;
  std::vector<double> rates;             ///< bytes per second
  std::vector<double> reciprocal_rates;  ///< while as much goes the other way
};

/// Measures the links between all ranks, in rounds of disjoint pairs: a message there and back of each size,
/// the least time of the repeats, a line through those. All ranks call it with the same options; the result is
/// on rank 0, nothing elsewhere.
///
/// | told   | called on rank 0 before each round, with its number from 0 and how many there are              |
/// | time   | where it would not do, the repeats are fewer, and large sizes are left out; two sizes are always |
/// |        | measured                                                                                       |
/// | clocks | those of one machine are one: what a message took one way is known. Else both directions have     |
/// |        | the same latency (link_fit.hpp)                                                                   |
/// | bytes  | those on the wire, header included                                                                |
Links measure_links(reef::comm::Progress& progress, const LinkOptions& options,
                    const std::function<void(int round, int rounds)>& told);

}  // namespace reef_examples
