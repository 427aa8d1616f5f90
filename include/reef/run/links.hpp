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

/// The messages of one sort (activations, gradients, ...) over one link, or within one group of ranks. The key of a
/// LinkTable.
///
/// | transfers   | `from` and `to` are ranks, and `group` is empty                                      |
/// | collectives | `group` is the name of the group, whose members all send to all; `from`, `to` are -1 |
struct Flow {
  schedule::Traffic traffic{};
  int from = -1;
  int to = -1;
  std::string group{};

  /// Returns the link as text, "0 -> 1", or the group's name.
  [[nodiscard]] std::string text() const { return from < 0 ? group : concat(from, " -> ", to); }

  friend std::strong_ordering operator<=>(const Flow&, const Flow&) = default;
  friend bool operator==(const Flow&, const Flow&) = default;
};

/// Returns the link or group, and sort of messages, to which an instruction of a rank's program belongs: those of its
/// collective's group, else of its first send, else of its first receive.
Flow flow_of(const schedule::Instruction& i, int rank);

/// The loss of precision by a codec on the numbers x of the messages over a link, as sums of squares.
struct CodingLoss {
  Flow flow{};
  double numbers = 0;  ///< sum of squares of the encoded numbers x
  double lost = 0;     ///< sum of squares of the differences x - decode(encode(x))
};

/// The bytes sent over a link for one sort of messages, and their cost in time and in precision.
///
///     ratio = raw / wire      relative_error = ||x - decode(encode(x))|| / ||x||      over all x that were encoded
struct LinkUse {
  comm::Cost sent{};        ///< the messages and bytes as comm::Meter counts them, headers included
  Bytes raw = 0;            ///< the bytes that the same numbers have in memory, not encoded
  Seconds exposed = 0;      ///< seconds in which computation stood still for messages of the link
  double numbers = 0;       ///< sum of squares of all encoded numbers whose loss was measured (CodingLoss::numbers)
  double lost = 0;          ///< sum of squares of the differences that encoding caused (CodingLoss::lost)
  bool unmeasured = false;  ///< true if the loss of precision by a lossy codec was not measured for some messages

  /// Returns the bytes sent, through messages and shared memory.
  [[nodiscard]] Bytes wire() const { return sent.bytes + sent.window_bytes; }
  [[nodiscard]] double ratio() const { return wire() > 0 ? static_cast<double>(raw) / static_cast<double>(wire()) : 1; }
  /// Returns the relative error that codecs caused: 0 if nothing was lost, nothing if it was not measured, NaN if a
  /// codec turned finite numbers into NaN.
  [[nodiscard]] std::optional<double> relative_error() const {
    if (unmeasured) return std::nullopt;
    return lost == 0 ? 0 : std::sqrt(lost / numbers);
  }

  LinkUse& operator+=(const LinkUse& other);
  LinkUse& operator-=(const LinkUse& before);

private:
  /// Returns now - before for sums that only grow: 0 if rounding makes the difference negative; NaN stays NaN.
  static double difference(double now, double before) { return now - before < 0 ? 0 : now - before; }
};

/// A table, by link or group and sort of messages, of the messages of ranks and of the time for which ranks stood still
/// for them. Tables of several ranks can be added; the figures of a span of time are the difference of two tables.
///
/// | one rank  | for links from it the messages sent, for links to it the time stood still; for groups both |
/// | all ranks | the sum of these: for each transfer of both ends, for a group of all members               |
///
/// \code
/// #include <cstdio>
/// // given: const run::LinkTable& before, const run::LinkTable& now
/// const run::LinkTable step = now - before;
/// const run::LinkUse gradients = step.of(schedule::Traffic::gradient);
/// std::printf("%.1f times smaller\n%s", gradients.ratio(), step.text().c_str());
/// \endcode
struct LinkTable {
  std::map<Flow, LinkUse> uses{};

  /// Returns the sum over all links and groups of one sort of messages.
  [[nodiscard]] LinkUse of(schedule::Traffic traffic) const;

  LinkTable& operator+=(const LinkTable& other) {
    for (const auto& [flow, use] : other.uses) uses[flow] += use;
    return *this;
  }
  /// Subtracts `before`, an earlier table of the same rank or ranks.
  friend LinkTable operator-(LinkTable now, const LinkTable& before) {
    for (const auto& [flow, use] : before.uses) now.uses[flow] -= use;
    return now;
  }

  /// Returns the table as text: a line of column names, and then a line for each link or group that has carried
  /// messages.
  [[nodiscard]] std::string text() const;
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/links.ipp>
#endif
