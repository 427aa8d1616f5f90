#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// The links between two groups after a device of one, or one of each, was replaced: a square matrix with
/// another row, another column, or both.
class ChangedLinks {
public:
  explicit ChangedLinks(int size)
      : size_(size),
        row_links_(static_cast<std::size_t>(size)),
        column_links_(static_cast<std::size_t>(size)),
        row_of_(static_cast<std::size_t>(size)),
        seen_(static_cast<std::size_t>(size)) {}

  void begin(const Seconds* links) {
    links_ = links;
    row_ = column_ = -1;
  }

  /// The links of row `row` are now these of `from` to the devices of the columns.
  void set_row(int row, const Seconds* from, const int* columns) {
    row_ = row;
    for (int c = 0; c < size_; ++c) row_links_.data()[c] = from[columns[c]];
  }

  void set_column(int column, const Seconds* from, const int* rows) {
    column_ = column;
    for (int r = 0; r < size_; ++r) column_links_.data()[r] = from[rows[r]];
  }

  /// What a perfect matching costs at least: the new row and column are matched too.
  [[nodiscard]] Seconds least() const {
    Seconds least = 0;
    if (row_ >= 0) least = *std::min_element(row_links_.begin(), row_links_.end());
    if (column_ >= 0) {
      least = (std::max)(least, *std::min_element(column_links_.begin(), column_links_.end()));
    }
    return least;
  }

  /// Whether a perfect matching costs at most `threshold`, which is at least what the matching `row_of`
  /// of the unchanged links costs: at most two augmenting paths from it, O(D) for each row on the way.
  [[nodiscard]] bool fits(const int* row_of, Seconds threshold) {
    std::copy(row_of, row_of + size_, row_of_.begin());
    int homeless = -1;
    if (row_ >= 0) *std::find(row_of_.begin(), row_of_.end(), row_) = -1;
    if (column_ >= 0) std::swap(homeless, row_of_.data()[column_]);
    if (row_ >= 0 && !augment_anew(row_, threshold)) return false;
    return homeless < 0 || augment_anew(homeless, threshold);
  }

  /// Writes the whole matrix.
  void write(Seconds* to) const {
    std::copy(links_, links_ + static_cast<std::ptrdiff_t>(size_) * size_, to);
    if (column_ >= 0) {
      for (int r = 0; r < size_; ++r) {
        to[static_cast<std::ptrdiff_t>(r) * size_ + column_] = column_links_.data()[r];
      }
    }
    if (row_ >= 0) {
      std::copy(row_links_.begin(), row_links_.end(),
                to + static_cast<std::ptrdiff_t>(row_) * size_);
    }
  }

private:
  bool augment_anew(int row, Seconds threshold) {
    std::fill(seen_.begin(), seen_.end(), 0);
    return augment(row, threshold);
  }

  [[nodiscard]] bool is_open(int row, const Seconds* links, int column, Seconds threshold) const {
    if (column == column_ && row != row_) return column_links_.data()[row] <= threshold;
    return links[column] <= threshold;
  }

  bool augment(int row, Seconds threshold) {
    const Seconds* const links =
        row == row_ ? row_links_.data() : links_ + static_cast<std::ptrdiff_t>(row) * size_;
    for (int c = 0; c < size_; ++c) {
      if (row_of_.data()[c] >= 0 || !is_open(row, links, c, threshold)) continue;
      row_of_.data()[c] = row;
      return true;
    }
    for (int c = 0; c < size_; ++c) {
      if (seen_.data()[c] != 0 || !is_open(row, links, c, threshold)) continue;
      seen_.data()[c] = 1;
      if (!augment(row_of_.data()[c], threshold)) continue;
      row_of_.data()[c] = row;
      return true;
    }
    return false;
  }

  int size_;
  const Seconds* links_ = nullptr;
  int row_ = -1;
  int column_ = -1;
  std::vector<Seconds> row_links_;
  std::vector<Seconds> column_links_;
  std::vector<int> row_of_;
  std::vector<char> seen_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
