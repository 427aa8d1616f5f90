#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {

/// A piece of a text to be concatenated: a number, or characters, which must outlive the TextPiece.
///
/// Numbers are spelled as by std::to_chars: a floating-point number in the fewest digits that read
/// back as the same value.
class TextPiece {
public:
  // Takes a literal as a pointer, since each length of a literal would be a type, and so a constructor, of its own.
  explicit TextPiece(const char* characters) : value_{.characters = characters} {}

  template <class T>
    requires std::convertible_to<const T&, std::string_view>
  explicit TextPiece(const T& characters) : value_{.characters = characters} {}

  template <std::floating_point T>
  explicit TextPiece(T number)
      : kind_(std::same_as<T, float> ? Kind::single : Kind::real),
        value_{.real = static_cast<double>(number)} {}

  // Takes a number; an unscoped enumeration is written as its number.
  template <class T>
    requires(std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>)
  || (std::is_enum_v<T> && std::convertible_to<T, std::int64_t>)explicit TextPiece(T number)
      : kind_(std::unsigned_integral<T> ? Kind::natural : Kind::whole),
  value_{.natural = static_cast<std::uint64_t>(number)} {}

  void append_to(std::string& text) const;

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

std::string join(std::initializer_list<TextPiece> pieces);

}  // namespace detail

/// Returns bytes of a file or a message in quotes, for an error's text: control characters and bytes
/// that do not occur in UTF-8 become `\xHH`; after the first `most` bytes "..." stands for the rest.
[[nodiscard]] std::string in_quotes(std::string_view bytes, std::size_t most = 60);

/// Concatenates pieces: concat("rank ", 3, " of ", ranks). The call is small, whatever the pieces are, and compiles
/// several times faster than a sum of strings.
///
/// \code
/// const std::string name = concat("rank ", 3, " of ", 8);
/// \endcode
template <class... Pieces>
[[nodiscard]] std::string concat(const Pieces&... pieces) {
  return detail::join({TextPiece(pieces)...});
}

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/core/text.ipp>
#endif
