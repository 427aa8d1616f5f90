#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/device/memory.hpp>

namespace reef {
inline namespace v0 {
namespace device {

REEF_INLINE void MemoryLedger::take(Bytes bytes, std::string_view what) {
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
  peak_ = (std::max)(peak_, used_);
}

REEF_INLINE void MemoryLedger::give_back(Bytes bytes, std::string_view what) noexcept {
  const std::lock_guard lock(mutex_);
  const auto holder = std::find_if(holders_.begin(), holders_.end(),
                                   [&](const auto& entry) { return entry.first == what; });
  if (holder == holders_.end()) return;
  holder->second -= bytes;
  if (holder->second == 0) holders_.erase(holder);
  used_ -= bytes;
}

REEF_INLINE MemoryError MemoryLedger::refused(Bytes bytes, std::string_view what,
                                              const std::string& why) const {
  const std::lock_guard lock(mutex_);
  return MemoryError(refusal(bytes, what, why));
}

REEF_INLINE MemoryReport MemoryLedger::report() const {
  const std::lock_guard lock(mutex_);
  return {used_, peak_, budget_, largest_first()};
}

REEF_INLINE std::vector<std::pair<std::string, Bytes>> MemoryLedger::largest_first() const {
  // Sorts numbers: a sort of the pairs themselves takes several times longer to compile.
  std::vector<std::size_t> order(holders_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return holders_[a].second != holders_[b].second ? holders_[a].second > holders_[b].second : a < b;
  });
  std::vector<std::pair<std::string, Bytes>> sorted;
  sorted.reserve(order.size());
  for (const std::size_t i : order) sorted.push_back(holders_[i]);
  return sorted;
}

REEF_INLINE std::string MemoryLedger::refusal(Bytes bytes, std::string_view what,
                                              const std::string& why) const {
  std::string text = concat("reef::device: no ", format_bytes(bytes), " for \"", what, "\" on ",
                            device_, ": ", why, ", ", format_bytes(used_), " are in use");
  const char* separator = ": ";
  for (const auto& [name, held] : largest_first()) {
    text += concat(separator, name, " ", format_bytes(held));
    separator = ", ";
  }
  return text +
         ".\n  fix: give the device more memory, or make micro-batch, model or slots smaller.";
}

}  // namespace device
}  // namespace v0
}  // namespace reef
