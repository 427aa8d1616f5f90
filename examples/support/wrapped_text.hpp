#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace reef_examples {

/// The place at which to break a line: behind `first`, and of those the last within `width`, or the first there is; npos: none. It is
/// a blank, or what follows the comma of a list `is_list`.
inline std::size_t place_to_break(std::string_view line, std::size_t first, std::size_t width, bool is_list) {
  const auto behind = [&](std::size_t comma) { return comma == std::string_view::npos ? comma : comma + 1; };
  std::size_t last = line.rfind(' ', width);
  if (last == std::string_view::npos || last <= first) last = 0;
  if (const std::size_t comma = is_list ? behind(line.rfind(',', width - 1)) : 0; comma != std::string_view::npos && comma > first)
    last = std::max(last, comma);
  if (last > 0) return last;
  const std::size_t blank = line.find(' ', first + 1);
  return is_list ? std::min(blank, behind(line.find(',', first))) : blank;
}

/// The text with lines of at most `width` columns, broken at blanks. What continues a line stands where that begins; in a list of options, whose second
/// column begins at `column`, there. What an option may be, as {one,two}, is broken behind a comma, and continues beneath the first. A
/// word that is longer stays whole.
inline std::string wrapped(std::string_view text, std::size_t width = 100,
                           std::size_t column = 30) {
  std::string result;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    const bool ended = line.size() < text.size();
    text.remove_prefix(line.size() + (ended ? 1 : 0));
    std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos) indent = 0;
    const bool is_of_list = line.size() > column && line.starts_with("  ") && line[column] != ' ' &&
                            line[column - 1] == ' ';
    const std::size_t values = line.starts_with("  -") && !is_of_list ? line.find('{') : std::string_view::npos;
    const bool is_list = values != std::string_view::npos;
    const std::string margin(is_list ? values + 1 : is_of_list ? column : indent, ' ');
    std::string begin;
    while (begin.size() + line.size() > width) {
      const std::size_t first = begin.empty() ? margin.size() : 0;  // no break in the margin
      const std::size_t end = place_to_break(line, first, width - begin.size(), is_list);
      if (end == std::string_view::npos) break;
      result += begin + std::string(line.substr(0, end)) + '\n';
      line.remove_prefix(line.find_first_not_of(' ', end) == std::string_view::npos
                             ? line.size()
                             : line.find_first_not_of(' ', end));
      begin = margin;
    }
    result += begin + std::string(line);
    if (ended) result += '\n';
  }
  return result;
}

}  // namespace reef_examples
