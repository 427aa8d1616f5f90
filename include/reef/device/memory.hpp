#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>

namespace reef::inline v0::device {

/// The books of one device's memory: who holds how much, the peak, and the budget.
///
/// | state  | one entry per name that holds something                                      |
/// | errors | MemoryError from take(): who asked for how much, what holds the rest; the    |
/// |        | books are unchanged                                                          |
/// | order  | thread-safe                                                                  |
class MemoryLedger {
public:
  MemoryLedger(std::string device, Bytes budget) : device_(std::move(device)), budget_(budget) {}

  /// Enters `bytes` for `what`, or throws.
  void take(Bytes bytes, std::string_view what) {
    const std::lock_guard lock(mutex_);
    if (budget_ != 0 && (bytes > budget_ || used_ > budget_ - bytes)) {
      throw MemoryError(refusal(bytes, what, "the budget is " + format_bytes(budget_)));
    }
    auto holder = std::find_if(holders_.begin(), holders_.end(),
                               [&](const auto& entry) { return entry.first == what; });
    if (holder == holders_.end()) {
      holders_.emplace_back(std::string(what), Bytes{0});
      holder = holders_.end() - 1;
    }
    holder->second += bytes;
    used_ += bytes;
    peak_ = std::max(peak_, used_);
  }

  /// Strikes out what take() entered.
  void give_back(Bytes bytes, std::string_view what) noexcept {
    const std::lock_guard lock(mutex_);
    const auto holder = std::find_if(holders_.begin(), holders_.end(),
                                     [&](const auto& entry) { return entry.first == what; });
    if (holder == holders_.end()) return;
    holder->second -= bytes;
    if (holder->second == 0) holders_.erase(holder);
    used_ -= bytes;
  }

  /// What to throw where the machine itself has no memory left: `why` is the allocator's word.
  [[nodiscard]] MemoryError refused(Bytes bytes, std::string_view what,
                                    const std::string& why) const {
    const std::lock_guard lock(mutex_);
    return MemoryError(refusal(bytes, what, why));
  }

  [[nodiscard]] MemoryReport report() const {
    const std::lock_guard lock(mutex_);
    return {used_, peak_, budget_, largest_first()};
  }

private:
  [[nodiscard]] std::vector<std::pair<std::string, Bytes>> largest_first() const {
    auto sorted = holders_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return sorted;
  }

  [[nodiscard]] std::string refusal(Bytes bytes, std::string_view what,
                                    const std::string& why) const {
    std::string text = concat("reef::device: no ", format_bytes(bytes), " for \"", what, "\" on ",
                              device_, ": ", why, ", ", format_bytes(used_), " are in use");
    const char* separator = ": ";
    for (const auto& [name, held] : largest_first()) {
      text += concat(separator, name, " ", format_bytes(held));
      separator = ", ";
    }
    return text + ".\n  fix: give the device more memory, or make micro-batch, model or slots smaller.";
  }

  mutable std::mutex mutex_;
  std::string device_;
  Bytes budget_ = 0;
  Bytes used_ = 0;
  Bytes peak_ = 0;
  std::vector<std::pair<std::string, Bytes>> holders_;
};

}  // namespace reef::inline v0::device
