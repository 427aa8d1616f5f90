#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// The pages of a number, each free or held by one or more sequences.
class PagePool {
public:
  using Page = std::int32_t;

  explicit PagePool(std::int64_t count) : holders_(static_cast<std::size_t>(count)) {
    for (std::int64_t page = count - 1; page >= 0; --page) free_.push_back(static_cast<Page>(page));
  }

  [[nodiscard]] std::size_t size() const { return holders_.size(); }
  [[nodiscard]] std::size_t free() const { return free_.size(); }
  /// Returns the number of sequences that hold a page.
  [[nodiscard]] std::size_t holders(Page page) const { return static_cast<std::size_t>(holders_[place_of(page)]); }

  /// Takes a page, of which one must be free.
  Page take() {
    const Page page = free_.back();
    free_.pop_back();
    holders_[place_of(page)] = 1;
    return page;
  }
  /// Makes each page held once more.
  void share(std::span<const Page> pages) {
    for (const Page page : pages) ++holders_[place_of(page)];
  }
  /// Makes each page held once less; what nobody holds is free.
  void release(std::span<const Page> pages) {
    for (const Page page : pages) {
      if (--holders_[place_of(page)] == 0) free_.push_back(page);
    }
  }

private:
  static std::size_t place_of(Page page) { return static_cast<std::size_t>(page); }

  std::vector<int> holders_;
  std::vector<Page> free_;
};

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
