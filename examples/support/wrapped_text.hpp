#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reef_examples {

/// The text with lines of at most `width` columns, broken at blanks. What continues a line stands where that begins; in a list of options, whose second
/// column begins at `column`, there. A word that is longer stays whole.
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
    const std::string margin(is_of_list ? column : indent, ' ');
    std::string begin;
    const bool is_head = line.starts_with("  -") && !is_of_list;  // of an option: what it may be is one word
    while (!is_head && begin.size() + line.size() > width) {
      const std::size_t first = begin.empty() ? margin.size() : 0;  // no break in the margin
      std::size_t end = line.rfind(' ', width - begin.size());
      if (end == std::string_view::npos || end <= first) end = line.find(' ', first + 1);
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
