#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reef::test {

/// Where the characters of random strings come from, the likelier the heavier.
struct CharacterSource {
  std::uint32_t weight;
  std::uint32_t first;
  std::uint32_t last;
};

inline constexpr CharacterSource character_sources[] = {
    {30, 0x20, 0x20},      {6, 0x27, 0x27},       {24, 0x61, 0x7a},      {6, 0x41, 0x5a},
    {8, 0x30, 0x39},       {8, 0x21, 0x2f},       {3, 0x3a, 0x40},       {2, 0x5b, 0x60},
    {2, 0x7b, 0x7e},       {5, 0x09, 0x0d},       {2, 0x00, 0x1f},       {1, 0x7f, 0xa0},
    {4, 0xa1, 0xff},       {3, 0x100, 0x24f},     {4, 0x300, 0x36f},     {4, 0x370, 0x3ff},
    {5, 0x400, 0x4ff},     {3, 0x5b0, 0x5ea},     {4, 0x600, 0x6ff},     {4, 0x900, 0x97f},
    {2, 0xe00, 0xe5b},     {2, 0x1e00, 0x1fff},   {4, 0x2000, 0x206f},   {3, 0x2070, 0x218f},
    {2, 0x2190, 0x27bf},   {3, 0x3000, 0x30ff},   {5, 0x4e00, 0x9fff},   {3, 0xac00, 0xd7a3},
    {2, 0xf900, 0xffff},   {4, 0x1f300, 0x1f6ff}, {2, 0x1f900, 0x1f9ff}, {2, 0x10000, 0x12fff},
    {2, 0x1d400, 0x1d7ff}, {1, 0x20000, 0x323af}, {1, 0xfe00, 0xfe0f},   {2, 0x0, 0x10ffff},
};

inline constexpr std::string_view word_endings[] = {"'s",  "'t", "'re", "'ve", "'m",
                                                    "'ll", "'d", "'S",  "'l",  "\xE2\x80\x99s"};

/// Appends a code point as UTF-8.
inline void append_utf8(std::string& text, std::uint32_t c) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
    return;
  }
  const unsigned more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  add((0xF00U >> (more + 1) & 0xFFU) | c >> (6 * more));
  for (unsigned i = more; i-- > 0;) add(0x80U | (c >> (6 * i) & 0x3FU));
}

/// The string of that number as random_strings.mjs makes it, in UTF-8: up to 60 pieces, each a run
/// of 1 to 6 characters of one source, or one of the endings that GPT-2's pattern knows.
inline std::string random_string(std::uint32_t number) {
  std::uint32_t state = (number + 1) * 0x9E3779B1U;  // xorshift32 (Marsaglia, 2003), never from 0
  if (state == 0) state = 1;
  const auto draw = [&](std::uint32_t bound) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % bound;
  };
  for (int i = 0; i < 8; ++i) draw(1);
  std::uint32_t total = 0;
  for (const CharacterSource& source : character_sources) total += source.weight;
  std::string text;
  for (std::uint32_t pieces = draw(61); pieces > 0; --pieces) {
    if (draw(16) == 0) {
      text += word_endings[draw(static_cast<std::uint32_t>(std::size(word_endings)))];
      continue;
    }
    std::uint32_t at = draw(total);
    const CharacterSource* source = character_sources;
    for (; at >= source->weight; ++source) at -= source->weight;
    for (std::uint32_t length = 1 + draw(6); length > 0; --length) {
      const std::uint32_t c = source->first + draw(source->last - source->first + 1);
      if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
    }
  }
  return text;
}

/// FNV-1a of 32 bits over bytes; give the last result to go on.
inline std::uint32_t fnv1a(std::string_view bytes, std::uint32_t hash = 0x811C9DC5U) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  return hash;
}

/// fnv1a of token ids as little-endian words of 32 bits.
inline std::uint32_t checksum_of_tokens(std::span<const std::int32_t> tokens) {
  return fnv1a({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

}  // namespace reef::test
