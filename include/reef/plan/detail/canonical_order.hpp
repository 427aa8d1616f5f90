#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/core/hash.hpp>

namespace reef::inline v0::plan::detail {

/// An order of n devices that follows from their figures, not from how they are numbered: what a search starts
/// from, so that its answer costs the same however a case lists them.
///
/// | own   | (n,) hashes of what a device is alone                                                   |
/// | links | (n, n) row-major hashes of what is between two, both directions in each                  |
///
/// Colours are refined by the colours and links of all others; where some stay alike, one of them is set apart
/// and the rest refined again. O(n^2) a round; beyond 256 devices those alike keep the order that they came in.
class CanonicalOrder {
public:
  CanonicalOrder(std::vector<std::uint64_t> own, std::vector<std::uint64_t> links)
      : n_(own.size()), colours_(std::move(own)), links_(std::move(links)) {}

  [[nodiscard]] std::vector<int> order() {
    refine();
    constexpr std::size_t most = 256;
    for (std::size_t apart = 0; n_ <= most && classes_ < n_ && apart < n_; ++apart) {
      set_apart();
      refine();
    }
    std::vector<int> order(n_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return colours_[static_cast<std::size_t>(a)] < colours_[static_cast<std::size_t>(b)];
    });
    return order;
  }

private:
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = (a ^ (b * 0x9E3779B97F4A7C15ULL)) + 0x632BE59BD9B4E019ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

  [[nodiscard]] std::size_t distinct() const {
    std::vector<std::uint64_t> sorted = colours_;
    std::sort(sorted.begin(), sorted.end());
    return static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }

  void refine() {
    classes_ = distinct();
    for (;;) {
      std::vector<std::uint64_t> next(n_);
      for (std::size_t i = 0; i < n_; ++i) {
        std::uint64_t sum = 0;  // of all others, in any order
        for (std::size_t j = 0; j < n_; ++j) {
          if (j != i) sum += mix(colours_[j], links_[i * n_ + j]);
        }
        next[i] = mix(colours_[i], sum);
      }
      colours_ = std::move(next);
      const std::size_t classes = distinct();
      if (classes <= classes_) return;
      classes_ = classes;
    }
  }

  void set_apart() {
    std::vector<std::uint64_t> sorted = colours_;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    const auto first = std::find(colours_.begin(), colours_.end(), *twice);
    *first = mix(*first, 1);
  }

  std::size_t n_;
  std::size_t classes_ = 0;
  std::vector<std::uint64_t> colours_;
  std::vector<std::uint64_t> links_;
};

}  // namespace reef::inline v0::plan::detail
