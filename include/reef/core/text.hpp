#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include <reef/core/language.hpp>

namespace reef::inline v0 {

/// A piece of a text: characters, which must outlive it, or a number.
///
/// Numbers are spelled as by std::to_chars: a floating-point number in the fewest digits that read
/// back as the same value.
class TextPiece {
public:
  template <class T>
    requires std::convertible_to<const T&, std::string_view>
  explicit TextPiece(const T& characters) : value_{.characters = characters} {}

  template <std::floating_point T>
  explicit TextPiece(T number)
      : kind_(std::same_as<T, float> ? Kind::single : Kind::real),
        value_{.real = static_cast<double>(number)} {}

  // The enumerations of C count as their numbers.
  template <class T>
    requires(std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>) ||
            (std::is_enum_v<T> && std::convertible_to<T, std::int64_t>)
  explicit TextPiece(T number)
      : kind_(std::unsigned_integral<T> ? Kind::natural : Kind::whole),
        value_{.natural = static_cast<std::uint64_t>(number)} {}

  void append_to(std::string& text) const {
    char digits[32];
    std::to_chars_result end{digits, {}};
    switch (kind_) {
      case Kind::characters: text.append(value_.characters); return;
      case Kind::whole:
        end = std::to_chars(digits, digits + sizeof digits,
                            static_cast<std::int64_t>(value_.natural));
        break;
      case Kind::natural:
        end = std::to_chars(digits, digits + sizeof digits, value_.natural);
        break;
      case Kind::single:
        end = std::to_chars(digits, digits + sizeof digits, static_cast<float>(value_.real));
        break;
      case Kind::real: end = std::to_chars(digits, digits + sizeof digits, value_.real); break;
    }
    text.append(digits, end.ptr);
  }

private:
  enum class Kind : unsigned char { characters, whole, natural, single, real };

  Kind kind_ = Kind::characters;
  union {
    std::string_view characters;
    std::uint64_t natural;
    double real;
  } value_;
};

namespace detail {

[[gnu::cold, gnu::noinline]] inline std::string join(std::initializer_list<TextPiece> pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) piece.append_to(text);
  return text;
}

}  // namespace detail

/// Bytes of a file or a message as a text shows them: in quotes, control characters of ASCII and bytes that
/// UTF-8 never has as `\xHH`, and of what is longer than `most` bytes the first so many and "...".
[[nodiscard]] inline std::string in_quotes(std::string_view bytes, std::size_t most = 60) {
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

/// The pieces in a row: concat("rank ", 3, " of ", ranks). One small call, whatever the pieces: it
/// compiles several times faster than a sum of strings.
template <class... Pieces>
[[nodiscard]] std::string concat(const Pieces&... pieces) {
  return detail::join({TextPiece(pieces)...});
}

}  // namespace reef::inline v0
