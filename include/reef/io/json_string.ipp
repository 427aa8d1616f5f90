#pragma once

#include <array>
#include <cstdint>
#include <cstdio>

#include <reef/core/inline.hpp>
#include <reef/io/json_string.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

REEF_INLINE std::size_t utf8_length(std::string_view text) {
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

REEF_INLINE void append_json_string(std::string& out, std::string_view text) {
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

REEF_INLINE std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace io
}  // namespace v0
}  // namespace reef
