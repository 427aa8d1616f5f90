#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/detail/link_weights.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Eq. 3: the perfect matching of two groups whose slowest link is as fast as can be.
///
/// The threshold begins at what every row and column needs, and rises to the cheapest link that leaves
/// the rows an augmenting path has reached, while there is none. Matched pairs stay: a matching under a
/// threshold is one under any higher one.
///
/// | cost | O(D^2) where the first threshold will do, O(D^3) words of 64 links at most |
class BottleneckMatching {
public:
  explicit BottleneckMatching(int size)
      : size_(size),
        words_((size + 63) / 64),
        least_(cells(size, 1)),
        open_(cells(size, words_)),
        seen_(cells(1, words_)),
        free_(cells(1, words_)),
        reached_(cells(size, 1)),
        row_of_(cells(size, 1)) {}

  /// The slowest link of the matching of rows with columns. Both are `size` devices.
  Seconds solve(const LinkWeights& weights, const int* rows, const int* columns) {
    links_.resize(cells(size_, size_));
    gather(weights, rows, columns, links_.data());
    return solve(links_.data());
  }

  /// The pp weights between rows and columns, row-major.
  void gather(const LinkWeights& weights, const int* rows, const int* columns,
              Seconds* links) const {
    for (int r = 0; r < size_; ++r) {
      const Seconds* const from = weights.pp_of(rows[r]);
      for (int c = 0; c < size_; ++c) *links++ = from[columns[c]];
    }
  }

  /// As above, of links (size, size) row-major, or some number from `limit` on where it is that much.
  Seconds solve(const Seconds* links, Seconds limit = std::numeric_limits<Seconds>::infinity()) {
    Seconds threshold = 0;
    std::copy(links, links + size_, least_.begin());
    Seconds* const least = least_.data();
    for (int r = 0; r < size_; ++r) {
      const Seconds* const link = links + static_cast<std::ptrdiff_t>(r) * size_;
      Seconds row_least = link[0];
      for (int c = 0; c < size_; ++c) {
        row_least = (std::min)(row_least, link[c]);
        least[c] = (std::min)(least[c], link[c]);
      }
      threshold = (std::max)(threshold, row_least);
      if (threshold >= limit) return threshold;
    }
    for (int c = 0; c < size_; ++c) threshold = (std::max)(threshold, least[c]);
    if (threshold >= limit) return threshold;
    open_links(links, threshold);
    std::fill(free_.begin(), free_.end(), 0);
    for (int c = 0; c < size_; ++c) free_.data()[c / 64] |= std::uint64_t{1} << (c % 64);
    for (int r = 0; r < size_; ++r) {
      while (!match(r)) {
        threshold = cheapest_way_out(links);
        if (threshold >= limit) return threshold;
        open_links(links, threshold);
      }
    }
    return threshold;
  }

  /// After solve: which row a column is matched with.
  [[nodiscard]] int row_of(int column) const { return row_of_.data()[column]; }
  [[nodiscard]] const int* rows() const { return row_of_.data(); }

private:
  static std::size_t cells(int a, int b) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
  }

  /// Bit c says whether link[c] is at most the threshold, for c below 8 and `count`.
  static std::uint64_t eight(const Seconds* link, int count, Seconds threshold) {
    std::uint64_t bits = 0;
    if (count >= 8) {
      std::array<unsigned char, 8> open;
      for (std::size_t c = 0; c < 8; ++c) open[c] = link[c] <= threshold ? 1 : 0;
      std::uint64_t bytes = 0;
      for (std::size_t c = 0; c < 8; ++c) bytes |= static_cast<std::uint64_t>(open[c]) << (8 * c);
      return (bytes * 0x0102040810204080U) >> 56;  // the lowest bits of the eight bytes
    }
    for (int c = 0; c < count; ++c) {
      bits |= static_cast<std::uint64_t>(link[c] <= threshold ? 1 : 0) << c;
    }
    return bits;
  }

  /// Opens the links of at most that weight, as bits.
  void open_links(const Seconds* link, Seconds threshold) {
    std::uint64_t* word = open_.data();
    for (int r = 0; r < size_; ++r) {
      for (int first = 0; first < size_; first += 64, ++word) {
        const int count = (std::min)(64, size_ - first);
        std::uint64_t bits = 0;
        for (int c = 0; c < count; c += 8) bits |= eight(link + c, count - c, threshold) << c;
        *word = bits;
        link += count;
      }
    }
  }

  /// Finds an augmenting path from a row that is not matched; notes rows and columns that it has seen.
  bool match(int row) {
    std::fill(seen_.begin(), seen_.end(), 0);
    reached_count_ = 0;
    return augment(row);
  }

  bool augment(int row) {
    reached_.data()[reached_count_++] = row;
    const std::uint64_t* const open = open_.data() + static_cast<std::ptrdiff_t>(row) * words_;
    for (int w = 0; w < words_; ++w) {
      const std::uint64_t direct = open[w] & free_.data()[w];
      if (direct == 0) continue;
      const int bit = std::countr_zero(direct);
      free_.data()[w] &= ~(std::uint64_t{1} << bit);
      row_of_.data()[w * 64 + bit] = row;
      return true;
    }
    for (int w = 0; w < words_; ++w) {
      for (std::uint64_t left = open[w] & ~seen_.data()[w]; left != 0;
           left = open[w] & ~seen_.data()[w]) {
        const int bit = std::countr_zero(left);
        seen_.data()[w] |= std::uint64_t{1} << bit;
        int& holder = row_of_.data()[w * 64 + bit];
        if (!augment(holder)) continue;
        holder = row;
        return true;
      }
    }
    return false;
  }

  /// The least link from a row that was reached to a column that was not.
  [[nodiscard]] Seconds cheapest_way_out(const Seconds* links) const {
    Seconds least = std::numeric_limits<Seconds>::infinity();
    for (int i = 0; i < reached_count_; ++i) {
      const Seconds* const link = links + static_cast<std::ptrdiff_t>(reached_.data()[i]) * size_;
      for (int c = 0; c < size_; ++c) {
        if ((seen_.data()[c / 64] >> (c % 64) & 1) == 0) least = (std::min)(least, link[c]);
      }
    }
    return least;
  }

  int size_;
  int words_;
  std::vector<Seconds> links_;       // of solve by devices
  std::vector<Seconds> least_;       // of each column
  std::vector<std::uint64_t> open_;  // (size, words)
  std::vector<std::uint64_t> seen_;  // columns of the search
  std::vector<std::uint64_t> free_;  // columns that are not matched
  std::vector<int> reached_;         // rows of the search
  std::vector<int> row_of_;
  int reached_count_ = 0;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
