#pragma once

#include <algorithm>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/data/split_pattern.hpp>

namespace reef {
inline namespace v0 {
namespace data {

REEF_INLINE std::string pcre2_form(std::string_view pattern) {
  // White_Space: PCRE2's own \s has U+180E too.
  constexpr std::string_view space = "\\t-\\r\\x{85}\\p{Z}";
  const auto refuse = [&](std::string_view what) {
    throw DecodeError(
        "reef::data::pcre2_form: the pattern ", in_quotes(pattern, 300), " has ", in_quotes(what),
        ".\n  why: Oniguruma and PCRE2 may read it in two ways, and cut text differently."
        "\n  fix: write it by classes such as \\p{L}, \\s, [\\r\\n] and groups such as (?:, (?i:, "
        "(?!.");
  };
  std::string form;
  int classes = 0;  // that the place is in: one in another adds its characters to those of the outer
  std::size_t class_begin = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    const char c = rest.front();
    if (c == '\\') {
      if (rest.size() == 1) refuse("\\");
      const char next = rest[1];
      ++i;
      const bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') ||
                          (next >= '0' && next <= '9');
      if (next == 's') {
        form += classes > 0 ? std::string(space) : concat("[", space, "]");
      } else if (next == 'S' && classes == 0) {
        form += concat("[^", space, "]");
      } else if (letter && std::string_view("pPdDrntfx").find(next) == std::string_view::npos) {
        refuse(rest.substr(0, 2));
      } else {
        form += rest.substr(0, 2);
      }
      continue;
    }
    if (classes > 0) {
      if (rest.starts_with("&&")) refuse(rest.substr(0, 2));
      if (c == ']' && i == class_begin) refuse("[]");
      if (c == '[') {
        // A range across the border, a class that excludes, and names of POSIX are refused.
        const bool ranges = i > 0 && pattern[i - 1] == '-';
        if (ranges || (rest.size() > 1 && std::string_view("^:-").find(rest[1]) != std::string_view::npos)) {
          refuse(ranges ? pattern.substr(i - 1, 2) : rest.substr(0, 2));
        }
        ++classes;
        class_begin = i + 1;
        continue;
      }
      if (c == ']' && --classes > 0) {
        if (pattern[i - 1] == '-' || rest.starts_with("]-")) refuse(pattern.substr(i - 1, 3));
        continue;
      }
    } else if (c == '[') {
      classes = 1;
      class_begin = i + (rest.starts_with("[^") ? 2 : 1);
    } else if (c == '^' || c == '$') {
      refuse(rest.substr(0, 1));
    } else if (rest.starts_with("(*") || rest.starts_with("(?")) {
      const auto begins = [&](std::string_view known) { return rest.starts_with(known); };
      const auto known = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
      if (!std::any_of(known.begin(), known.end(), begins)) refuse(rest.substr(0, 4));
    }
    form += c;
  }
  if (classes > 0) refuse(pattern.substr(class_begin - 1));
  return form;
}

}  // namespace data
}  // namespace v0
}  // namespace reef
