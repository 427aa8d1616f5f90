#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/data/detail/file_kind.hpp>

namespace reef::inline v0::data::detail {

/// What tokens without a header are, as their values tell: 2 or 4 bytes each, or 0 with what they
/// are otherwise, and its fix.
struct TokenWidth {
  std::size_t bytes = 2;
  std::string_view otherwise{};
  std::string_view fix{};
};

/// Looks at the first page. Fewer than 64 bytes, which may be anything, count as tokens of 2 bytes.
///
/// | 4 bytes       | every second uint16 is at most 3: vocabularies end below 2^18              |
/// | 8 bytes       | of those every second uint32 is 0                                          |
/// | other kinds   | of every fourth byte, from the first on, seven bits are 0, as of big-endian |
/// |               | integers and of floats that are whole                                      |
/// | 1 byte, text  | no byte above 127, and not 0 in every second place                         |
inline TokenWidth width_of_tokens(std::span<const std::uint8_t> bytes) {
  const auto page = bytes.first(std::min(bytes.size(), judged_block));
  const auto word = [&](std::size_t i) { return page[2 * i] | page[2 * i + 1] << 8; };
  constexpr int highest_half = 3;
  bool low_small = true;   // every first uint16 of a pair
  bool empty_ends = true;  // seven bits of every fourth byte
  bool high_small = true;  // every second one
  bool eight = true;       // every second pair is 0
  bool narrow = true;      // no byte above 127
  std::size_t filled = 0;  // uint16 above 255
  const std::size_t pairs = page.size() / 4;
  for (std::size_t i = 0; i < pairs; ++i) {
    const int low = word(2 * i);
    const int high = word(2 * i + 1);
    low_small = low_small && low <= highest_half;
    empty_ends = empty_ends && (low & 0x7f) == 0;
    high_small = high_small && high <= highest_half;
    eight = eight && (i % 2 == 0 || (low == 0 && high == 0));
    narrow = narrow && ((low | high) & 0x8080) == 0;
    filled += (low > 255 ? 1U : 0U) + (high > 255 ? 1U : 0U);
  }
  if (pairs < 16) return {};
  if (high_small && !low_small) {
    if (!eight) return {4};
    return {0, "its values are of 8 bytes each, as of int64",
            "write it again as uint16, or as uint32, e.g. by tokens.astype(numpy.uint16)"};
  }
  if (empty_ends && !high_small) {
    return {0, "its values are big-endian, or floating-point numbers",
            "write it again as little-endian uint16 or uint32"};
  }
  if (page.size() >= 256 && filled > pairs / 2 && !find_no_text(page)) {
    return {0, "it is text, no tokens", "name it .txt, which is read as text"};
  }
  if (narrow && filled > pairs / 2) {
    return {0, "its values are of 1 byte each",
            "write it again as uint16, e.g. by tokens.astype(numpy.uint16)"};
  }
  return {};
}

}  // namespace reef::inline v0::data::detail
