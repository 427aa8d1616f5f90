#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/plan/swarm.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

__extension__ typedef __int128 Wide;

/// Compares a / b with c / d, of positive b and d, by their continued fractions: no product can overflow.
inline int compare_fractions(Wide a, Wide b, Wide c, Wide d) {
  for (int sign = 1;; sign = -sign) {
    const auto floor = [](Wide n, Wide by) { return n / by - (n % by < 0 ? 1 : 0); };
    const Wide whole = floor(a, b);
    const Wide other = floor(c, d);
    if (whole != other) return whole < other ? -sign : sign;
    const Wide rest = a - whole * b;
    const Wide other_rest = c - other * d;
    if (rest == 0 || other_rest == 0) return rest == other_rest ? 0 : rest == 0 ? -sign : sign;
    a = std::exchange(b, rest);
    c = std::exchange(d, other_rest);
  }
}

/// The linear relaxation of contiguous placement: each server's throughput may be divided among spans of its length,
///
///     T = max min_i t[i],   t[i] = sum over lengths l and starts s of x[l, s] where s <= i < s + l,
///                           sum over s of x[l, s] = W[l], the throughput of all servers with room for l blocks
///
/// Solved as a covering: T is the most tracks z, each a chain of spans that covers all blocks,
///
///     T = max sum_p z[p],   sum_p a[p, l] z[p] <= W[l],   over p with sum_l a[p, l] l >= blocks
///
/// since chains of spans, the last shifted back into the model, are a placement; and of a placement spans are edges
/// s -> s + l of a network with free edges i -> i - 1, in which a cut between block 0 and the end is the t[i] of a
/// block, so that a flow of min_i t[i] goes through it, along paths that are such chains. By duality every u >= 0 gives
/// a bound:
///
///     T <= sum_l W[l] u[l] / min_p sum_l a[p, l] u[l]
///
/// Solved by the simplex method; the next p is the cheapest at the prices u, by dynamic programming. In whole numbers:
/// rows are kept times the determinant of the basis, by which each division is exact (Edmonds), so that all machines
/// find the same.
///
/// Where an entry leaves 96 bits, whose sums then need no care, or after `max_work` steps of dynamic programming, it
/// ends with the best bound of those that prices on the way gave.
class SwarmBound {
public:
  static constexpr std::int64_t max_work = 200'000'000;

  /// `supply`: of each length that servers have room for, their throughput, in any order.
  SwarmBound(int blocks, const std::vector<std::pair<int, Throughput>>& supply)
      : blocks_(static_cast<std::size_t>(blocks)) {
    for (const auto& [length, throughput] : supply) {
      lengths_.push_back(static_cast<std::size_t>(length));
      unit_ = std::gcd(unit_, throughput);
    }
    for (const auto& [length, throughput] : supply) supply_.push_back(throughput / unit_);
  }

  Throughput find() {
    if (lengths_.empty()) return 0;
    const std::size_t m = lengths_.size();
    const std::vector<Wide> even(lengths_.begin(), lengths_.end());
    take_bound(even, cheapest(even).first);
    for (std::size_t l = 0; l < m; ++l) {
      rows_.push_back({std::vector<Wide>(m, 0), supply_[l], false});
      rows_.back().inverse[l] = 1;
    }
    while (work_ < max_work && pivot()) {
    }
    return best_;
  }

private:
  /// Of the basis: its inverse and its solution, both times the determinant.
  struct Row {
    std::vector<Wide> inverse;
    Wide solution;
    bool is_track;  ///< else what is left of a length
  };

  /// a b - c d, or false where that does not fit.
  static bool difference(Wide a, Wide b, Wide c, Wide d, Wide& result) {
    Wide left = 0;
    Wide right = 0;
    return !__builtin_mul_overflow(a, b, &left) && !__builtin_mul_overflow(c, d, &right) &&
           !__builtin_sub_overflow(left, right, &result);
  }

  /// What the cheapest chain of spans costs that covers all blocks, and how many of each length it has.
  std::pair<Wide, std::vector<Wide>> cheapest(const std::vector<Wide>& prices) {
    std::vector<Wide> cost(blocks_ + 1, 0);
    std::vector<std::size_t> last(blocks_ + 1, 0);
    for (std::size_t covered = 1; covered <= blocks_; ++covered) {
      for (std::size_t l = 0; l < lengths_.size(); ++l) {
        const Wide with = prices[l] + cost[covered - (std::min)(covered, lengths_[l])];
        if (l > 0 && with >= cost[covered]) continue;
        cost[covered] = with;
        last[covered] = l;
      }
    }
    work_ += static_cast<std::int64_t>(blocks_ * lengths_.size());
    std::vector<Wide> counts(lengths_.size(), 0);
    for (std::size_t left = blocks_; left > 0; left -= (std::min)(left, lengths_[last[left]]))
      ++counts[last[left]];
    return {cost[blocks_], counts};
  }

  /// The bound of these prices, at which the cheapest chain costs `least`.
  void take_bound(const std::vector<Wide>& prices, Wide least) {
    if (least <= 0) return;
    Wide sum = 0;
    for (std::size_t l = 0; l < prices.size(); ++l) {
      Wide product = 0;
      if (__builtin_mul_overflow(supply_[l], prices[l], &product) ||
          __builtin_add_overflow(sum, product, &sum))
        return;
    }
    Wide rest = 0;
    if (__builtin_mul_overflow(sum % least, Wide{unit_}, &rest)) return;
    const Wide bound = sum / least * unit_ + rest / least;
    if (bound < best_) best_ = static_cast<Throughput>(bound);
  }

  /// One step of the simplex method; false where nothing is left to gain, or numbers do not fit.
  bool pivot() {
    const std::size_t m = rows_.size();
    std::vector<Wide> prices(m, 0);
    Wide tracks = 0;
    for (const Row& row : rows_) {
      if (!row.is_track) continue;
      if (__builtin_add_overflow(tracks, row.solution, &tracks)) return false;
      for (std::size_t l = 0; l < m; ++l) prices[l] += row.inverse[l];
    }
    Wide rest = 0;
    if (!__builtin_mul_overflow(tracks % determinant_, Wide{unit_}, &rest) &&
        tracks / determinant_ * unit_ + rest / determinant_ >= best_) {
      return false;
    }
    std::vector<Wide> column(m, 0);
    const auto negative = std::ranges::find_if(prices, [](Wide price) { return price < 0; });
    const bool is_track = negative == prices.end();
    if (is_track) {
      Wide least = 0;
      std::tie(least, column) = cheapest(prices);
      take_bound(prices, least);
      if (least >= determinant_) return false;
    } else {
      column[static_cast<std::size_t>(negative - prices.begin())] = 1;
    }
    std::vector<Wide> change(m, 0);
    std::size_t out = m;
    for (std::size_t r = 0; r < m; ++r) {
      for (std::size_t l = 0; l < m; ++l) change[r] += rows_[r].inverse[l] * column[l];
      if (change[r] > 0 && (out == m || leaves_before(r, change[r], out, change[out]))) out = r;
    }
    if (out == m) return false;
    for (std::size_t r = 0; r < m; ++r) {
      if (r == out) continue;
      Row& row = rows_[r];
      if (!eliminate(row.solution, Wide{1} << 120, change[out], change[r], rows_[out].solution))
        return false;
      for (std::size_t l = 0; l < m; ++l) {
        if (!eliminate(row.inverse[l], Wide{1} << 96, change[out], change[r],
                       rows_[out].inverse[l]))
          return false;
      }
    }
    determinant_ = change[out];
    rows_[out].is_track = is_track;
    return true;
  }

  /// The entry of a row from which a multiple of the one that leaves is taken.
  bool eliminate(Wide& entry, Wide most, Wide pivot, Wide factor, Wide other) const {
    if (!difference(entry, pivot, factor, other, entry)) return false;
    entry /= determinant_;
    return entry > -most && entry < most;
  }

  /// By what is left at once, and where that is equal by the rows of the inverse, which are never all equal: no basis
  /// comes twice.
  [[nodiscard]] bool leaves_before(std::size_t r, Wide change, std::size_t other,
                                   Wide other_change) const {
    int order = compare_fractions(rows_[r].solution, change, rows_[other].solution, other_change);
    for (std::size_t l = 0; l < rows_.size() && order == 0; ++l) {
      order = compare_fractions(rows_[r].inverse[l], change, rows_[other].inverse[l], other_change);
    }
    return order < 0;
  }

  std::size_t blocks_;
  std::vector<std::size_t> lengths_;
  std::vector<Wide> supply_;
  Throughput unit_ = 0;  ///< of which all throughputs are multiples
  std::vector<Row> rows_;
  Wide determinant_ = 1;
  Throughput best_ = (std::numeric_limits<Throughput>::max)();
  std::int64_t work_ = 0;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
