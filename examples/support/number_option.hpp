#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>

#include <reef/core/text.hpp>

#include "numbers.hpp"

namespace reef_examples {

/// What makes an option's text a number from `least` to `most`, or refuses it. CLI11 alone takes 010
/// for eight, and 0x10 for sixteen.
template <class Number>
CLI::Validator number_from(std::type_identity_t<Number> least, std::type_identity_t<Number> most) {
  constexpr bool whole = std::integral<Number>;
  const std::string range =
      reef::concat(whole ? "a whole number" : "a number", " from ", least, " to ", most);
  return {[=](std::string& text) {
            const std::optional<Number> number = parse_number<Number>(text);
            if (!number || *number < least || *number > most)
              return reef::concat(reef::in_quotes(text), " is not ", range,
                                  whole ? ", in decimal digits" : "");
            text = reef::concat(*number);  // as CLI11 reads it too
            return std::string();
          },
          reef::concat("in [", least, " - ", most, "]")};
}

}  // namespace reef_examples
