#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/core/text.hpp>

#include "numbers.hpp"

namespace reef_examples {

/// "a whole number from 0 to 9"; an end that is the type's own goes without saying.
template <class Number>
std::string text_of_range(Number least, Number most) {
  const char* const kind = std::integral<Number> ? "a whole number" : "a number";
  if (most == std::numeric_limits<Number>::max()) return reef::concat(kind, " from ", least, " on");
  return reef::concat(kind, " from ", least, " to ", most);
}

/// Why a text is no such number; empty where it is one.
template <class Number>
std::string not_in_range(std::string_view text, const std::optional<Number>& number, Number least,
                         Number most) {
  if (number && !(*number < least) && !(*number > most)) return {};
  return reef::concat(reef::in_quotes(text), " is not ", text_of_range(least, most),
                      std::integral<Number> ? ", in decimal digits" : "");
}

/// What makes an option's text a number from `least` to `most`, or refuses it. CLI11 alone takes 010
/// for eight, and 0x10 for sixteen.
template <class Number>
CLI::Validator number_from(std::type_identity_t<Number> least, std::type_identity_t<Number> most) {
  return {[=](std::string& text) {
            const std::optional<Number> number = parse_number<Number>(text);
            std::string why = not_in_range(text, number, least, most);
            if (why.empty()) text = reef::concat(*number);  // as CLI11 reads it too
            return why;
          },
          reef::concat("in [", least, " - ", most, "]")};
}

/// A whole number in decimal digits, or with an exponent, as 8e9.
template <std::integral Number>
std::optional<Number> parse_amount(std::string_view text) {
  if (const auto number = parse_number<Number>(text)) return number;
  const auto real = parse_number<double>(text);
  if (!real || text.find_first_of("eE") == std::string_view::npos) return std::nullopt;
  constexpr double end = 2 * static_cast<double>(std::numeric_limits<Number>::max() / 2 + 1);
  if (!(*real >= static_cast<double>(std::numeric_limits<Number>::min()) && *real < end))
    return std::nullopt;
  const auto number = static_cast<Number>(*real);
  return static_cast<double>(number) == *real ? std::optional(number) : std::nullopt;
}

/// Calls `take` with each part of "N,N,...", and ends with what it returns first that is not empty.
inline std::string for_each_part(
    std::string_view list, const std::function<std::string(std::string_view, std::size_t)>& take) {
  for (std::size_t begin = 0, count = 1;; ++count) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (std::string why = take(list.substr(begin, end - begin), count); !why.empty()) return why;
    if (end == list.size()) return {};
    begin = end + 1;
  }
}

/// How an option's list of numbers is spelt: whole ones in digits, or also with an exponent.
enum class Spelling { digits, amounts };

/// What makes an option's text a list "N,N,..." of numbers as number_from takes one, or refuses it.
template <class Number>
CLI::Validator numbers_from(std::type_identity_t<Number> least, std::type_identity_t<Number> most,
                            Spelling spelling = Spelling::digits) {
  return {[=](std::string& text) {
            std::string spelt;
            std::string why = for_each_part(text, [&](std::string_view part, std::size_t count) {
              std::optional<Number> number = parse_number<Number>(part);
              if constexpr (std::integral<Number>) {
                if (spelling == Spelling::amounts) number = parse_amount<Number>(part);
              }
              std::string reason = not_in_range(part, number, least, most);
              if (reason.empty()) spelt += reef::concat(count == 1 ? "" : ",", *number);
              if (reason.empty() || text == part) return reason;
              return reef::concat("number ", count, " of the list ", reef::in_quotes(text), ": ",
                                  reason);
            });
            if (why.empty()) text = spelt;
            return why;
          },
          reef::concat("N,N,... in [", least, " - ", most, "]")};
}

/// The numbers of a list that numbers_from has passed.
template <class Number>
std::vector<Number> numbers_of(std::string_view list) {
  std::vector<Number> numbers;
  static_cast<void>(for_each_part(list, [&](std::string_view part, std::size_t) {
    numbers.push_back(parse_number<Number>(part).value());
    return std::string();
  }));
  return numbers;
}

}  // namespace reef_examples
