#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/data/detail/file_kind.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// What tokens without a header are, as their values tell: 2 or 4 bytes each, or 0 with what they
/// are otherwise, and its fix.
struct TokenWidth {
  std::size_t bytes = 2;
  std::string_view otherwise{};
  std::string_view fix{};
};

/// What the values of some bytes of a file have in common, as pairs of uint16.
struct ValuesSeen {
  static constexpr int highest_half = 3;

  bool low_small = true;   // every first uint16 of a pair
  bool high_small = true;  // every second one
  bool empty_ends = true;  // seven bits of every fourth byte
  bool eight = true;       // every second pair is 0
  bool narrow = true;      // no byte above 127
  std::size_t filled = 0;  // uint16 above 255
  std::size_t large = 0;   // first uint16 of a pair that are not small
  std::size_t pairs = 0;

  ValuesSeen() = default;
  /// Of a page, which begins at a multiple of 8 bytes.
  explicit ValuesSeen(std::span<const std::uint8_t> page) : pairs(page.size() / 4) {
    const auto word = [&](std::size_t i) { return page[2 * i] | page[2 * i + 1] << 8; };
    for (std::size_t i = 0; i < pairs; ++i) {
      const int low = word(2 * i);
      const int high = word(2 * i + 1);
      low_small = low_small && low <= highest_half;
      high_small = high_small && high <= highest_half;
      empty_ends = empty_ends && (low & 0x7f) == 0;
      eight = eight && (i % 2 == 0 || (low == 0 && high == 0));
      narrow = narrow && ((low | high) & 0x8080) == 0;
      filled += (low > 255 ? 1U : 0U) + (high > 255 ? 1U : 0U);
      large += low > highest_half ? 1U : 0U;
    }
  }

  void add(const ValuesSeen& other) {
    low_small = low_small && other.low_small;
    high_small = high_small && other.high_small;
    empty_ends = empty_ends && other.empty_ends;
    eight = eight && other.eight;
    narrow = narrow && other.narrow;
    filled += other.filled;
    large += other.large;
    pairs += other.pairs;
  }

  /// Of 4 bytes or 8, and not by chance, as of a page with padding.
  [[nodiscard]] bool surely_wide() const { return high_small && pairs >= 16 && large >= pairs / 4; }
};

/// Looks at 16 pages that are spread over the file. Fewer than 64 bytes, which may be anything, count as
/// tokens of 2 bytes.
///
/// | 4 bytes       | every second uint16 is at most 3: vocabularies end below 2^18               |
/// | 8 bytes       | of those every second uint32 is 0                                           |
/// | undecided     | so on some pages, and not on others                                         |
/// | other kinds   | of every fourth byte, from the first on, seven bits are 0, as of big-endian |
/// |               | integers and of floats that are whole                                       |
/// | 1 byte, text  | no byte above 127, and not 0 in every second place; on the first page       |
inline TokenWidth width_of_tokens(std::span<const std::uint8_t> bytes) {
  const std::size_t pages = (bytes.size() + judged_block - 1) / judged_block;
  const std::size_t judged = std::min<std::size_t>(pages, 16);
  const auto page = [&](std::size_t i) {
    const std::size_t at = judged_block * (judged > 1 ? i * (pages - 1) / (judged - 1) : 0);
    return bytes.subspan(at, (std::min)(judged_block, bytes.size() - at));
  };
  ValuesSeen all;
  bool wide_somewhere = false;
  for (std::size_t i = 0; i < judged; ++i) {
    const ValuesSeen seen(page(i));
    wide_somewhere = wide_somewhere || seen.surely_wide();
    all.add(seen);
  }
  if (all.pairs < 16) return {};
  if (wide_somewhere && !all.high_small) {
    return {0, "on some of its pages values are of 4 or 8 bytes each, on others of 2",
            "write it with numpy.save as .npy, or with llm.c's header, which say the width"};
  }
  if (all.high_small && !all.low_small) {
    if (!all.eight) return {4};
    return {0, "its values are of 8 bytes each, as of int64",
            "write it again as uint16, or as uint32, e.g. by tokens.astype(numpy.uint16)"};
  }
  const ValuesSeen first(page(0));
  for (const ValuesSeen& seen : {first, all}) {
    if (!seen.empty_ends || seen.high_small) continue;
    return {0, "its values are big-endian, or floating-point numbers",
            "write it again as little-endian uint16 or uint32"};
  }
  if (first.pairs >= 64 && first.filled > first.pairs / 2 && !find_no_text(page(0))) {
    return {0, "it is text, no tokens", "name it .txt, which is read as text"};
  }
  if (first.narrow && first.filled > first.pairs / 2) {
    return {0, "its values are of 1 byte each",
            "write it again as uint16, e.g. by tokens.astype(numpy.uint16)"};
  }
  return {};
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
