#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <reef/core/text.hpp>

namespace reef::test {

/// Where two values differ first, bit for bit, and how, in words: " [3] [17]: 0.5, not 0.25"; "" where they do not. NaN equals
/// itself, 0 and -0 differ. Of lists, of lists of lists, of maps, and of what a run leaves behind (Outcome).
template <class T, class U>
std::string first_difference(const T& actual, const U& expected) {
  if constexpr (requires {
                  actual.losses;
                  actual.norms;
                  actual.weights;
                }) {
    for (const auto& [what, text] :
         {std::pair("loss of step", first_difference(actual.losses, expected.losses)),
          {"gradient norm of step", first_difference(actual.norms, expected.norms)},
          {"weights of parameter", first_difference(actual.weights, expected.weights)}}) {
      if (!text.empty()) return concat(" ", what, text);
    }
    return "";
  } else if constexpr (std::convertible_to<T, std::string_view>) {
    return actual == expected ? "" : concat(": '", actual, "', not '", expected, "'");
  } else if constexpr (std::ranges::sized_range<T>) {
    std::size_t at = 0;
    auto other = std::ranges::begin(expected);
    for (const auto& one : actual) {
      if (at == std::ranges::size(expected)) break;
      if (const std::string text = first_difference(one, *other); !text.empty())
        return concat(" [", at, "]", text);
      ++at;
      ++other;
    }
    if (std::ranges::size(actual) == std::ranges::size(expected)) return "";
    return concat(": ", std::ranges::size(actual), " of them, not ", std::ranges::size(expected));
  } else if constexpr (requires {
                         actual.first;
                         actual.second;
                       }) {
    const std::string key = first_difference(actual.first, expected.first);
    return key.empty() ? first_difference(actual.second, expected.second) : concat(" key", key);
  } else if constexpr (std::same_as<T, std::byte>) {
    return actual == expected
               ? ""
               : concat(": byte ", static_cast<int>(actual), ", not ", static_cast<int>(expected));
  } else {
    static_assert(std::same_as<T, U>);
    if (std::memcmp(&actual, &expected, sizeof actual) == 0) return "";
    return concat(": ", static_cast<double>(actual), ", not ", static_cast<double>(expected));
  }
}

/// For EXPECT_TRUE(same_bits(a, b)) << of what: a failure says where they differ first.
template <class T, class U>
testing::AssertionResult same_bits(const T& actual, const U& expected) {
  const std::string where = first_difference(actual, expected);
  if (where.empty()) return testing::AssertionSuccess() << "no bit differs";
  return testing::AssertionFailure() << "they differ at" << where;
}

}  // namespace reef::test
