#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include <reef/core/first_fit.hpp>
#include <reef/core/units.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

/// Who wrote bytes last, and when. Writing a storage makes stale whatever else lies in those bytes.
///
/// | cost | O(log storages) for each write, and for each question the stretches that were written apart; a |
/// |      | question about one storage ends at the first that another wrote                                |
class LastWriters {
public:
  /// All that the storage is holds what it wrote.
  [[nodiscard]] bool holds(ByteRange range, StorageId storage) const {
    if (range.begin == range.end) return true;
    for (auto part = at(range.begin); part != parts_.end() && part->first < range.end; ++part) {
      if (part->second.storage != storage) return false;
    }
    return true;
  }

  /// The last instruction that wrote some of the bytes as another storage; null: none did.
  [[nodiscard]] const Instruction* last_other(ByteRange range, StorageId storage) const {
    const Part* last = nullptr;
    if (range.begin == range.end) return nullptr;
    for (auto part = at(range.begin); part != parts_.end() && part->first < range.end; ++part) {
      const Part& found = part->second;
      if (found.storage == storage || found.by == nullptr) continue;
      if (last == nullptr || found.time > last->time) last = &found;
    }
    return last == nullptr ? nullptr : last->by;
  }

  /// The number of writes until some of the bytes were written last; 0 for none.
  [[nodiscard]] std::uint64_t last_time(ByteRange range) const {
    std::uint64_t last = 0;
    if (range.begin == range.end) return last;
    for (auto part = at(range.begin); part != parts_.end() && part->first < range.end; ++part) {
      last = (std::max)(last, part->second.time);
    }
    return last;
  }
  /// The writes so far.
  [[nodiscard]] std::uint64_t now() const { return time_; }
  /// The stretches that it tells apart.
  [[nodiscard]] std::size_t parts() const { return parts_.size(); }

  /// `by`: null before the first instruction.
  void write(ByteRange range, StorageId storage, const Instruction* by) {
    if (range.begin == range.end) return;
    const auto end = from(range.end);
    const auto part = from(range.begin);
    part->second = {storage, by, ++time_};
    parts_.erase(std::next(part), end);
  }

private:
  struct Part {
    StorageId storage = no_storage;
    const Instruction* by = nullptr;
    std::uint64_t time = 0;
  };
  using Parts = std::map<Bytes, Part>;  // by the first byte: each goes on to the next

  [[nodiscard]] Parts::const_iterator at(Bytes byte) const {
    return std::prev(parts_.upper_bound(byte));
  }
  Parts::iterator from(Bytes byte) {
    const auto next = parts_.upper_bound(byte);
    const auto part = std::prev(next);
    return part->first == byte ? part : parts_.emplace_hint(next, byte, part->second);
  }

  Parts parts_{{0, Part{}}};
  std::uint64_t time_ = 0;
};

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
