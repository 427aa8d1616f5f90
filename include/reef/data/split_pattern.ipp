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
  bool in_class = false;
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
        form += in_class ? std::string(space) : concat("[", space, "]");
      } else if (next == 'S' && !in_class) {
        form += concat("[^", space, "]");
      } else if (letter && std::string_view("pPdDrntfx").find(next) == std::string_view::npos) {
        refuse(rest.substr(0, 2));
      } else {
        form += rest.substr(0, 2);
      }
      continue;
    }
    if (in_class) {
      if (c == '[' || rest.starts_with("&&")) refuse(rest.substr(0, 2));
      if (c == ']' && i == class_begin) refuse("[]");
      if (c == ']') in_class = false;
    } else if (c == '[') {
      in_class = true;
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
  if (in_class) refuse(pattern.substr(class_begin - 1));
  return form;
}

}  // namespace data
}  // namespace v0
}  // namespace reef
