#pragma once

#include <cmath>
#include <compare>
#include <map>
#include <optional>
#include <string>

#include <reef/comm/meter.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The ends of messages, and their sort of traffic.
///
/// | transfers   | `from` and `to` are ranks, and there is no group                                        |
/// | collectives | `group` is the name of the group, whose members all send to all; no rank is named       |
struct Link {
  schedule::Traffic traffic{};
  int from = -1;
  int to = -1;
  std::string group{};

  /// Returns "0 -> 1", or the group's name.
  [[nodiscard]] std::string text() const { return from < 0 ? group : concat(from, " -> ", to); }

  friend std::strong_ordering operator<=>(const Link&, const Link&) = default;
};

/// Returns the link of an instruction's messages on a rank.
Link link_of(const schedule::Instruction& i, int rank);

/// The loss of a codec on the numbers x of messages over a link, as sums of squares.
struct CodingLoss {
  Link link{};
  double numbers = 0;  ///< sum of squares of x
  double lost = 0;     ///< sum of squares of x - decode(encode(x))
};

/// The bytes that a link has carried, and their cost in time and precision.
///
///     ratio = raw / wire      relative_error = ||x - decode(encode(x))|| / ||x||      over all x that were encoded
struct LinkUse {
  comm::Cost sent{};      ///< messages and bytes as comm::Meter counts them, headers included
  Bytes raw = 0;          ///< bytes of the same numbers in memory
  Seconds exposed = 0;    ///< time in which computation stood still for the link
  double numbers = 0;     ///< CodingLoss::numbers of all that was measured; lost is CodingLoss::lost
  double lost = 0;
  bool unmeasured = false;  ///< true if a codec that loses something carried numbers whose loss was not measured

  /// Returns the bytes sent, by messages and in shared memory.
  [[nodiscard]] Bytes wire() const { return sent.bytes + sent.window_bytes; }
  [[nodiscard]] double ratio() const { return wire() > 0 ? static_cast<double>(raw) / static_cast<double>(wire()) : 1; }
  /// Returns the relative error: 0 where nothing is lost; nothing where it was not measured; NaN where a codec made NaN
  /// of finite numbers.
  [[nodiscard]] std::optional<double> relative_error() const {
    if (unmeasured) return std::nullopt;
    return lost == 0 ? 0 : std::sqrt(lost / numbers);
  }

  LinkUse& operator+=(const LinkUse& other);
  LinkUse& operator-=(const LinkUse& before);

private:
  /// Returns now - before of sums that grow: a difference that rounding makes negative is 0, NaN stays NaN.
  static double difference(double now, double before) { return now - before < 0 ? 0 : now - before; }
};

/// A table, by link, of the messages of ranks and of the time they stood still for them. Tables of several ranks are
/// added; the figures of a span of time are the difference of two tables.
///
/// | one rank  | what it sent over links from it, and its time stood still on links to it; of a group both        |
/// | all ranks | the sum: of each transfer both ends, of a group all members' messages and seconds                |
///
/// \code
/// #include <cstdio>
/// // given: const run::LinkTable& before, const run::LinkTable& now
/// const run::LinkTable step = now - before;
/// const run::LinkUse gradients = step.of(schedule::Traffic::gradient);
/// std::printf("%.1f times smaller\n%s", gradients.ratio(), step.text().c_str());
/// \endcode
struct LinkTable {
  std::map<Link, LinkUse> uses{};

  /// Returns the sum over all links of one sort of traffic.
  [[nodiscard]] LinkUse of(schedule::Traffic traffic) const;

  LinkTable& operator+=(const LinkTable& other) {
    for (const auto& [link, use] : other.uses) uses[link] += use;
    return *this;
  }
  /// Subtracts `before`, an earlier table of the same rank or ranks.
  friend LinkTable operator-(LinkTable now, const LinkTable& before) {
    for (const auto& [link, use] : before.uses) now.uses[link] -= use;
    return now;
  }

  /// Returns a line for each link that has carried something, below a line of column names.
  [[nodiscard]] std::string text() const;
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/links.ipp>
#endif
