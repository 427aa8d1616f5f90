#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <reef/io/json_string.hpp>

namespace reef_examples {

/// A text as a terminal shows it: bytes that are no UTF-8, and control characters but line ends and tabs, as `\xHH`, since
/// a terminal obeys some of them.
inline std::string shown_on_terminal(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t length = reef::io::detail::utf8_length(text);
    const bool is_control =
        (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F ||
        (byte == 0xC2 && length == 2 && static_cast<unsigned char>(text[1]) < 0xA0);
    const std::size_t taken = std::max<std::size_t>(length, 1);
    if (length > 0 && !is_control) {
      shown += text.substr(0, taken);
    } else {
      for (const char one : text.substr(0, taken)) {
        constexpr std::string_view digits = "0123456789abcdef";
        const auto value = static_cast<unsigned char>(one);
        shown += "\\x";
        shown += digits[value / 16];
        shown += digits[value % 16];
      }
    }
    text.remove_prefix(taken);
  }
  return shown;
}

/// A text for standard output: as it is, unless that is a terminal.
inline std::string shown_on_output(const std::string& text) {
  return ::isatty(STDOUT_FILENO) != 0 ? shown_on_terminal(text) : text;
}

}  // namespace reef_examples
