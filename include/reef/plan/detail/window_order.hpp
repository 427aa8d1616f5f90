#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/core/language.hpp>

namespace reef::inline v0::plan::detail {

/// Windows of equal length, from left to right, compared as sorted lists with the best so far.
///
/// Of two multisets of equal size, sorted and in lexicographical order, that comes first which has more of
/// the least value in whose number they differ. A step to the right changes two numbers, so a window costs
/// a look for the least difference, no sorting.
class WindowOrder {
public:
  template <class Number>
  WindowOrder(std::span<const Number> t, int length)
      : length_(static_cast<std::size_t>(length)), ranks_(t.size()) {
    std::vector<Number> values(t.begin(), t.end());
    std::ranges::sort(values);
    for (std::size_t i = 0; i < t.size(); ++i) {
      ranks_[i] =
          static_cast<std::uint32_t>(std::ranges::lower_bound(values, t[i]) - values.begin());
    }
    more_in_window_.assign(t.size(), 0);
    differ_.assign((t.size() + 63) / 64, 0);
  }

  /// Goes to the next window. Whether it comes before the best so far, which it then is.
  bool next_comes_before_best() {
    count(ranks_[at_], -1);
    count(ranks_[at_ + length_], +1);
    ++at_;
    const auto word = std::ranges::find_if(differ_, [](std::uint64_t bits) { return bits != 0; });
    if (word == differ_.end()) return false;
    const std::size_t rank = static_cast<std::size_t>(word - differ_.begin()) * 64 +
                             static_cast<std::size_t>(std::countr_zero(*word));
    if (more_in_window_[rank] < 0) return false;
    for (std::size_t i = 0; i < differ_.size(); ++i) {
      for (; differ_[i] != 0; differ_[i] &= differ_[i] - 1)
        more_in_window_[i * 64 + static_cast<std::size_t>(std::countr_zero(differ_[i]))] = 0;
    }
    return true;
  }

private:
  void count(std::uint32_t rank, int by) {
    more_in_window_[rank] += by;
    const std::uint64_t bit = std::uint64_t{1} << (rank % 64);
    if (more_in_window_[rank] != 0) {
      differ_[rank / 64] |= bit;
    } else {
      differ_[rank / 64] &= ~bit;
    }
  }

  std::size_t length_;
  std::size_t at_ = 0;
  std::vector<std::uint32_t> ranks_;   // (L,): of each block's throughput
  std::vector<int> more_in_window_;    // (L,): by rank, in this window than in the best
  std::vector<std::uint64_t> differ_;  // a bit for each rank whose numbers differ
};

/// a / b < p / q, of what is 0 or more and b, q above 0: continued fractions, so no product is too large.
inline bool ratio_below(std::int64_t a, std::int64_t b, std::int64_t p, std::int64_t q) {
  for (bool below = true;; below = !below) {
    if (a / b != p / q) return below == (a / b < p / q);
    a %= b;
    p %= q;
    if (a == 0 || p == 0) return below ? a == 0 && p != 0 : a != 0 && p == 0;
    std::swap(a, b);
    std::swap(p, q);
  }
}

}  // namespace reef::inline v0::plan::detail
