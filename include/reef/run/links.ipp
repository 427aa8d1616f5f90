#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>

#include <reef/core/inline.hpp>
#include <reef/run/links.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE Flow flow_of(const schedule::Instruction& i, int rank) {
  if (i.collective) return {i.traffic, -1, -1, i.collective->group.name};
  if (!i.sends.empty()) return {i.traffic, rank, i.sends.front().peer, {}};
  return {i.traffic, i.receives.empty() ? -1 : i.receives.front().peer, rank, {}};
}

REEF_INLINE LinkUse& LinkUse::operator+=(const LinkUse& other) {
  sent = sent + other.sent;
  raw += other.raw;
  exposed += other.exposed;
  numbers += other.numbers;
  lost += other.lost;
  unmeasured = unmeasured || other.unmeasured;
  return *this;
}

REEF_INLINE LinkUse& LinkUse::operator-=(const LinkUse& before) {
  sent = sent - before.sent;
  raw -= before.raw;
  exposed = difference(exposed, before.exposed);
  numbers = difference(numbers, before.numbers);
  lost = difference(lost, before.lost);
  return *this;
}

REEF_INLINE LinkUse LinkTable::of(schedule::Traffic traffic) const {
  LinkUse all;
  for (const auto& [flow, use] : uses) {
    if (flow.traffic == traffic) all += use;
  }
  return all;
}

REEF_INLINE std::string LinkTable::text() const {
  std::size_t widest = 4;
  for (const auto& [flow, use] : uses) widest = (std::max)(widest, flow.text().size());
  const auto line = [&](const std::string& channel, const std::string& link, const std::string& rest) {
    std::string text = channel;
    text.resize(std::max<std::size_t>(20, text.size()), ' ');
    text += link;
    text.resize((std::max)(20 + widest, text.size()), ' ');
    return text + rest + "\n";
  };
  const auto columns = [](const char* messages, const std::string& raw, const std::string& wire, const char* ratio,
                          const char* error, const char* exposed) {
    char text[160];
    std::snprintf(text, sizeof text, "%10s  %10s  %10s  %8s  %8s  %9s", messages, raw.c_str(), wire.c_str(), ratio,
                  error, exposed);
    return std::string(text);
  };
  const auto number = [](const char* form, double value) {
    char text[40];
    std::snprintf(text, sizeof text, form, value);
    return std::string(text);
  };
  std::string result = line("channel", "link", columns("messages", "raw", "wire", "raw/wire", "error", "exposed s"));
  for (const auto& [flow, use] : uses) {
    if (use.wire() == 0 && !(use.exposed > 0)) continue;
    const std::optional<double> error = use.relative_error();
    result += line(std::string(schedule::name_of(flow.traffic)), flow.text(),
                   columns(std::to_string(use.sent.messages).c_str(), format_bytes(use.raw), format_bytes(use.wire()),
                           number("%.2f", use.ratio()).c_str(), error ? number("%.3g", *error).c_str() : "-",
                           number("%.3f", use.exposed).c_str()));
  }
  return result;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
