#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include <reef/core/language.hpp>

namespace reef::inline v0::io {

namespace detail {

/// The length of the well-formed UTF-8 sequence at the front of `text`; 0 if there is none.
inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool shortest = first != 0xE0 || byte(1) >= 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return shortest && !surrogate && follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool in_range = (first != 0xF0 || byte(1) >= 0x90) && (first != 0xF4 || byte(1) <= 0x8F);
    return in_range && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace detail

/// Appends `text` as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD, so
/// that the document stays readable whatever the text holds.
inline void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    std::size_t taken = 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else if (const std::size_t length = detail::utf8_length(text); length != 0) {
      out += text.substr(0, length);
      taken = length;
    } else {
      out += "\\ufffd";
    }
    text.remove_prefix(taken);
  }
  out += '"';
}

/// `text` as a JSON string, quotes included.
inline std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace reef::inline v0::io
