#pragma once

#include <charconv>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {

REEF_INLINE void TextPiece::append_to(std::string& text) const {
  char digits[32];
  std::to_chars_result end{digits, {}};
  switch (kind_) {
    case Kind::characters: text.append(value_.characters); return;
    case Kind::whole:
      end =
          std::to_chars(digits, digits + sizeof digits, static_cast<std::int64_t>(value_.natural));
      break;
    case Kind::natural: end = std::to_chars(digits, digits + sizeof digits, value_.natural); break;
    case Kind::single:
      end = std::to_chars(digits, digits + sizeof digits, static_cast<float>(value_.real));
      break;
    case Kind::real: end = std::to_chars(digits, digits + sizeof digits, value_.real); break;
  }
  text.append(digits, end.ptr);
}

namespace detail {

[[gnu::cold, gnu::noinline]] REEF_INLINE std::string join(std::initializer_list<TextPiece> pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) piece.append_to(text);
  return text;
}

}  // namespace detail

REEF_INLINE std::string in_quotes(std::string_view bytes, std::size_t most) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "'";
  for (const char c : bytes.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f && byte != 0xc0 && byte != 0xc1 && byte < 0xf5) {
      text += c;
    } else {
      text.append({'\\', 'x', digits[byte >> 4], digits[byte & 15]});
    }
  }
  text += bytes.size() > most ? "'..." : "'";
  return text;
}

}  // namespace v0
}  // namespace reef
