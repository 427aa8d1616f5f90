#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {

template <class T>
concept arithmetic_number = std::integral<T> || std::floating_point<T>;

/// Parses the whole of `text` as a decimal number: digits, of which the first may be 0, and
/// for floating-point types a point and an exponent. Returns nothing where `text` has any
/// other character, where the number does not fit its type, and for infinities and NaN.
///
/// \code
/// const std::optional<int> threads = parse_number<int>("8");      // 8
/// const std::optional<double> rate = parse_number<double>("8x");  // nothing
/// \endcode
template <arithmetic_number Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  if constexpr (std::floating_point<Number>) {
    if (text.find_first_of("nN") != std::string_view::npos) return std::nullopt;  // inf and nan
  }
  return number;
}

}  // namespace v0
}  // namespace reef
