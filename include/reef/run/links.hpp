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

/// Whose messages, and of what sort.
///
/// | transfers   | `from` and `to` are ranks, and there is no group                                        |
/// | collectives | `group` is the name of who takes part, of whom all send to all; no rank is named         |
struct Link {
  schedule::Traffic traffic{};
  int from = -1;
  int to = -1;
  std::string group{};

  /// "0 -> 1", or the group's name.
  [[nodiscard]] std::string text() const { return from < 0 ? group : concat(from, " -> ", to); }

  friend std::strong_ordering operator<=>(const Link&, const Link&) = default;
};

/// Those of an instruction of a rank.
Link link_of(const schedule::Instruction& i, int rank);

/// What a codec made of the numbers x of messages over a link, as sums of squares.
struct CodingLoss {
  Link link{};
  double numbers = 0;  ///< of x
  double lost = 0;     ///< of x - decode(encode(x))
};

/// What a link has carried, and what that cost.
///
///     ratio = raw / wire      relative_error = ||x - decode(encode(x))|| / ||x||      over all x that were encoded
struct LinkUse {
  comm::Cost sent{};      ///< as comm::Meter counts it, headers included
  Bytes raw = 0;          ///< what the same numbers take in memory
  Seconds exposed = 0;    ///< computation stood still for it
  double numbers = 0;     ///< CodingLoss, of what was measured
  double lost = 0;
  bool unmeasured = false;  ///< some of it went by a codec that loses something, and nobody measured what

  /// By messages and in shared memory.
  [[nodiscard]] Bytes wire() const { return sent.bytes + sent.window_bytes; }
  [[nodiscard]] double ratio() const { return wire() > 0 ? static_cast<double>(raw) / static_cast<double>(wire()) : 1; }
  /// 0 where nothing is lost; nothing where it was not measured; NaN where a codec made it of finite ones.
  [[nodiscard]] std::optional<double> relative_error() const {
    if (unmeasured) return std::nullopt;
    return lost == 0 ? 0 : std::sqrt(lost / numbers);
  }

  LinkUse& operator+=(const LinkUse& other);
  LinkUse& operator-=(const LinkUse& before);

private:
  /// Of sums that grow: what rounding makes negative is 0, what is not a number stays so.
  static double difference(double now, double before) { return now - before < 0 ? 0 : now - before; }
};

/// By link what ranks have sent, and what they stood still for. Those of several ranks add up; what came between two
/// moments is their difference.
///
/// | a rank's | what it sent over links from it, and over those to it what it stood still for; of a group both |
/// | of all   | the sum: of each transfer both ends, of a group all members' messages and seconds               |
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

  /// All links of one sort of traffic.
  [[nodiscard]] LinkUse of(schedule::Traffic traffic) const;

  LinkTable& operator+=(const LinkTable& other) {
    for (const auto& [link, use] : other.uses) uses[link] += use;
    return *this;
  }
  /// `before`: of the same rank or ranks, earlier.
  friend LinkTable operator-(LinkTable now, const LinkTable& before) {
    for (const auto& [link, use] : before.uses) now.uses[link] -= use;
    return now;
  }

  /// A line for each link that has carried something, below a line of names.
  [[nodiscard]] std::string text() const;
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/links.ipp>
#endif
