#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {

/// A 64-bit FNV-1a hash of numbers and texts; its value is the same on every machine.
///
/// \code
/// // given: const std::vector<int>& cuts
/// Hash hash;
/// for (const int cut : cuts) hash.add(cut);
/// const std::uint64_t value = hash.add("acco").value();
/// \endcode
class Hash {
public:
  template <class Number>
    requires std::is_integral_v<Number> || std::is_enum_v<Number>
  constexpr Hash& add(Number number) {
    auto bits = static_cast<std::uint64_t>(number);
    for (int byte = 0; byte < 8; ++byte, bits >>= 8) mix(static_cast<std::uint8_t>(bits));
    return *this;
  }
  constexpr Hash& add(double number) { return add(std::bit_cast<std::uint64_t>(number)); }
  constexpr Hash& add(std::string_view text) {
    for (const char c : text) mix(static_cast<std::uint8_t>(c));
    return add(text.size());
  }
  [[nodiscard]] constexpr std::uint64_t value() const { return value_; }

private:
  constexpr void mix(std::uint8_t byte) { value_ = (value_ ^ byte) * 1099511628211ULL; }

  std::uint64_t value_ = 14695981039346656037ULL;
};

}  // namespace v0
}  // namespace reef
