#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include <reef/data/detail/unicode_runs.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// The class of a character in GPT-2's pattern: `\p{L}`, `\p{N}`, `\s`, or none of these. Unicode 16.
enum class CharClass : std::uint8_t { other, letter, number, space };

namespace detail {

/// Returns the starts of the runs of Unicode characters of one class, ascending: starts[i] = 4 * first code point +
/// class of run i.
consteval auto make_unicode_starts() {
  std::array<std::uint32_t, std::size(unicode_runs) + 1> starts{};
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < std::size(unicode_runs); ++i) {
    starts[i] = at << 2 | (unicode_runs[i] & 3U);
    at += unicode_runs[i] >> 2;
  }
  starts.back() = at << 2;
  return starts;
}
inline constexpr auto unicode_starts = make_unicode_starts();

constexpr CharClass find_class(std::uint32_t code_point) {
  const auto* const after =
      std::upper_bound(unicode_starts.begin(), unicode_starts.end(), code_point << 2 | 3U);
  return static_cast<CharClass>(*(after - 1) & 3U);
}

consteval auto make_ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (std::uint32_t c = 0; c < 128; ++c) classes[c] = find_class(c);
  return classes;
}
inline constexpr auto ascii_classes = make_ascii_classes();

struct Character {
  CharClass kind;
  std::uint8_t bytes;
};

/// Returns the character that begins at byte `at`. A byte that begins no valid UTF-8 (Unicode 16, table 3-7) is a
/// character of its own, of class `other`.
constexpr Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<std::uint8_t>(text[at + i]) : std::uint8_t{0};
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {ascii_classes[first], 1};
  const std::uint8_t bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (bytes == 0 || first > 0xF4) return {CharClass::other, 1};
  std::uint32_t code_point = first & (0x7FU >> bytes);
  for (std::uint8_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {CharClass::other, 1};
    code_point = code_point << 6 | (byte(i) & 0x3FU);
  }
  const bool overlong = bytes == 3 ? code_point < 0x800 : bytes == 4 && code_point < 0x10000;
  const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
  if (overlong || surrogate || code_point > 0x10FFFF) return {CharClass::other, 1};
  return {find_class(code_point), bytes};
}

/// Returns the end of the run of characters of class `kind` that begins at `at`.
constexpr std::size_t end_of_run(std::string_view text, std::size_t at, CharClass kind) {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

}  // namespace detail

/// Returns the end of the word-like piece of `text` that begins at byte `at`, below the size, by GPT-2's pattern:
///
///     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// | cost  | each character of the piece is read once; spaces at most twice           |
/// | bytes | any: a byte that is not valid UTF-8 is one character of CharClass::other |
///
/// Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019, encoder.py.
///
/// \code
/// // given: std::string_view text
/// std::vector<std::string_view> pieces;
/// for (std::size_t at = 0; at < text.size(); at += pieces.back().size()) {
///   pieces.push_back(text.substr(at, data::gpt2_piece_end(text, at) - at));
/// }
/// \endcode
constexpr std::size_t gpt2_piece_end(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.front() == '\'') {
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (rest.starts_with(ending)) return at + ending.size();
    }
  }
  const detail::Character first = detail::character_at(text, at);
  if (first.kind != CharClass::space) {
    return detail::end_of_run(text, at + first.bytes, first.kind);
  }
  if (rest.front() == ' ' && rest.size() > 1) {
    const detail::Character next = detail::character_at(text, at + 1);
    if (next.kind != CharClass::space) {
      return detail::end_of_run(text, at + 1 + next.bytes, next.kind);
    }
  }
  // A run of spaces leaves its last space to the piece that follows, unless no piece follows or the run has one space
  // only.
  std::size_t last = at;
  std::size_t end = at + first.bytes;
  while (end < text.size()) {
    const detail::Character next = detail::character_at(text, end);
    if (next.kind != CharClass::space) return last == at ? end : last;
    last = end;
    end += next.bytes;
  }
  return end;
}

}  // namespace data
}  // namespace v0
}  // namespace reef
