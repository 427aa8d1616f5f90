#pragma once

#include <bit>

#include <reef/core/inline.hpp>
#include <reef/plan/detail/window_order.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

REEF_INLINE bool WindowOrder::next_comes_before_best() {
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

REEF_INLINE void WindowOrder::count(std::uint32_t rank, int by) {
  more_in_window_[rank] += by;
  const std::uint64_t bit = std::uint64_t{1} << (rank % 64);
  if (more_in_window_[rank] != 0) {
    differ_[rank / 64] |= bit;
  } else {
    differ_[rank / 64] &= ~bit;
  }
}

REEF_INLINE bool ratio_below(std::int64_t a, std::int64_t b, std::int64_t p, std::int64_t q) {
  for (bool below = true;; below = !below) {
    if (a / b != p / q) return below == (a / b < p / q);
    a %= b;
    p %= q;
    if (a == 0 || p == 0) return below ? a == 0 && p != 0 : a != 0 && p == 0;
    std::swap(a, b);
    std::swap(p, q);
  }
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
