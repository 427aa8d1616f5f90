#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <reef/comm/meter.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::run {

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
inline Link link_of(const schedule::Instruction& i, int rank) {
  if (i.collective) return {i.traffic, -1, -1, i.collective->group.name};
  if (!i.sends.empty()) return {i.traffic, rank, i.sends.front().peer, {}};
  return {i.traffic, i.receives.empty() ? -1 : i.receives.front().peer, rank, {}};
}

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
  /// 0 where nothing is lost; nothing where it was not measured; NaN where a number was not finite.
  [[nodiscard]] std::optional<double> relative_error() const {
    if (unmeasured) return std::nullopt;
    return lost == 0 ? 0 : std::sqrt(lost / numbers);
  }

  LinkUse& operator+=(const LinkUse& other) {
    sent = sent + other.sent;
    raw += other.raw;
    exposed += other.exposed;
    numbers += other.numbers;
    lost += other.lost;
    unmeasured = unmeasured || other.unmeasured;
    return *this;
  }
  LinkUse& operator-=(const LinkUse& before) {
    sent = sent - before.sent;
    raw -= before.raw;
    exposed = difference(exposed, before.exposed);
    numbers = difference(numbers, before.numbers);
    lost = difference(lost, before.lost);
    return *this;
  }

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
  [[nodiscard]] LinkUse of(schedule::Traffic traffic) const {
    LinkUse all;
    for (const auto& [link, use] : uses) {
      if (link.traffic == traffic) all += use;
    }
    return all;
  }

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

inline std::string LinkTable::text() const {
  std::size_t widest = 4;
  for (const auto& [link, use] : uses) widest = std::max(widest, link.text().size());
  const auto line = [&](const std::string& channel, const std::string& link, const std::string& rest) {
    std::string text = channel;
    text.resize(std::max<std::size_t>(20, text.size()), ' ');
    text += link;
    text.resize(std::max(20 + widest, text.size()), ' ');
    return text + rest + "\n";
  };
  const auto columns = [](const char* messages, const std::string& raw, const std::string& wire, const char* ratio,
                          const char* error, const char* exposed) {
    char text[160];
    std::snprintf(text, sizeof text, "%10s  %10s  %10s  %8s  %8s  %9s", messages, raw.c_str(), wire.c_str(), ratio, error,
                  exposed);
    return std::string(text);
  };
  const auto number = [](const char* form, double value) {
    char text[40];
    std::snprintf(text, sizeof text, form, value);
    return std::string(text);
  };
  std::string result = line("channel", "link", columns("messages", "raw", "wire", "raw/wire", "error", "exposed s"));
  for (const auto& [link, use] : uses) {
    if (use.wire() == 0 && !(use.exposed > 0)) continue;
    const std::optional<double> error = use.relative_error();
    result += line(std::string(schedule::name_of(link.traffic)), link.text(),
                   columns(std::to_string(use.sent.messages).c_str(), format_bytes(use.raw), format_bytes(use.wire()),
                           number("%.2f", use.ratio()).c_str(), error ? number("%.3g", *error).c_str() : "-",
                           number("%.3f", use.exposed).c_str()));
  }
  return result;
}

}  // namespace reef::inline v0::run
