#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

inline constexpr std::string_view error_feedback_name = "error_feedback";
inline constexpr std::string_view ef21_name = "ef21";
inline constexpr std::string_view delta_name = "delta";
inline constexpr std::string_view dct_name = "dct";
inline constexpr std::string_view chain_name = "chain";

/// "chain(top_k, uniform8)", of types that have names.
template <const std::string_view& Outer, class... Inner>
class JoinedName {
  static constexpr std::size_t length =
      Outer.size() + (Inner::name.size() + ...) + 2 * sizeof...(Inner);
  static constexpr std::array<char, length> characters = [] {
    std::array<char, length> to{};
    std::size_t at = 0;
    const auto append = [&](std::string_view text) {
      for (const char c : text) to[at++] = c;
    };
    append(Outer);
    append("(");
    bool first = true;
    ((append(first ? "" : ", "), first = false, append(Inner::name)), ...);
    append(")");
    return to;
  }();

public:
  static constexpr std::string_view value{characters.data(), length};
};

template <const std::string_view& Outer, class... Inner>
inline constexpr std::string_view joined_name = JoinedName<Outer, Inner...>::value;

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
