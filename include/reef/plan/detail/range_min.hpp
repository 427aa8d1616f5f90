#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Two numbers of which the first decides.
struct Cost {
  std::int64_t first = (std::numeric_limits<std::int64_t>::max)();  ///< that much: there is none
  std::int64_t second = 0;

  [[nodiscard]] bool exists() const { return first != (std::numeric_limits<std::int64_t>::max)(); }
  friend auto operator<=>(const Cost&, const Cost&) = default;
};

inline Cost operator+(const Cost& a, const Cost& b) {
  return a.exists() && b.exists() ? Cost{a.first + b.first, a.second + b.second} : Cost{};
}

/// A cost and where it was found. Of equal costs the first one's place.
struct Found {
  Cost cost{};
  int at = -1;

  void take(const Found& other) {
    if (other.cost < cost) *this = other;
  }
};

/// The smallest cost of any range of places. O(n log n) once, O(1) a range.
class RangeMin {
public:
  /// Of new costs; the memory stays.
  void assign(const std::vector<Cost>& costs) {
    size_ = costs.size();
    if (levels_.empty()) levels_.emplace_back();
    levels_[0].resize(size_);
    for (std::size_t i = 0; i < size_; ++i) levels_[0][i] = {costs[i], static_cast<int>(i)};
    std::size_t level = 1;
    for (std::size_t half = 1; 2 * half <= size_; half *= 2, ++level) {
      if (levels_.size() == level) levels_.emplace_back();
      const std::vector<Found>& below = levels_[level - 1];
      std::vector<Found>& here = levels_[level];
      here.resize(size_ + 1 - 2 * half);
      for (std::size_t i = 0; i < here.size(); ++i) {
        here[i] = below[i];
        here[i].take(below[i + half]);
      }
    }
  }

  /// Of places [first, last]; none if that is empty.
  [[nodiscard]] Found of(int first, int last) const {
    if (first > last) return {};
    const auto begin = static_cast<std::size_t>(first);
    const auto length = static_cast<std::size_t>(last - first + 1);
    const auto level = static_cast<std::size_t>(std::bit_width(length)) - 1;
    Found result = levels_[level][begin];
    result.take(levels_[level][begin + length - (std::size_t{1} << level)]);
    return result;
  }

private:
  std::size_t size_ = 0;
  std::vector<std::vector<Found>> levels_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
