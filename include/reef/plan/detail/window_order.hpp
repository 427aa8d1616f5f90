#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

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
  bool next_comes_before_best();

private:
  void count(std::uint32_t rank, int by);

  std::size_t length_;
  std::size_t at_ = 0;
  std::vector<std::uint32_t> ranks_;   // (L,): of each block's throughput
  std::vector<int> more_in_window_;    // (L,): by rank, in this window than in the best
  std::vector<std::uint64_t> differ_;  // a bit for each rank whose numbers differ
};

/// a / b < p / q, of what is 0 or more and b, q above 0: continued fractions, so no product is too large.
bool ratio_below(std::int64_t a, std::int64_t b, std::int64_t p, std::int64_t q);

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/detail/window_order.ipp>
#endif
