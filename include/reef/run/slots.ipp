#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/slots.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE Slots::Slots(schedule::Program& program, int count, const char* what,
                         const std::vector<std::vector<Value>>& values) {
  Bytes largest = 0;
  for (const std::vector<Value>& of_segment : values) {
    Bytes bytes = 0;
    for (const Value& value : of_segment) bytes += place_of(program, value);
    largest = (std::max)(largest, bytes);
  }
  for (int slot = 0; slot < count; ++slot) {
    const StorageId region =
        program.add_storage(concat("slot ", slot, " of ", what), largest, Place::device);
    order_.push_back(static_cast<std::size_t>(slot));
    contents_.emplace_back();
    auto& parts = parts_.emplace_back(values.size());
    for (std::size_t s = 0; s < values.size(); ++s) {
      Bytes offset = 0;
      for (const Value& value : values[s]) {
        const schedule::Storage& storage = program.storages[value.storage];
        const std::string name = concat(storage.name, " in slot ", slot);
        parts[s].push_back({program.add_part(name, region, offset, storage.bytes), 0});
        offset += place_of(program, value);
      }
    }
  }
}

REEF_INLINE Slots::Held Slots::take(int segment, int version) {
  const Held before = held_in(order_.front());
  use(order_.front());
  const std::size_t slot = order_.back();
  contents_[slot] = {segment, version};
  for (Value& part : parts_[slot][static_cast<std::size_t>(segment)]) part.version = version;
  return before;
}

REEF_INLINE std::vector<Slots::Held> Slots::all() const {
  std::vector<Held> all;
  for (const std::size_t slot : order_) all.push_back(held_in(slot));
  return all;
}

REEF_INLINE bool Slots::find(int segment, int version) {
  const auto found = std::find(contents_.begin(), contents_.end(), Content{segment, version});
  if (found == contents_.end()) return false;
  use(static_cast<std::size_t>(found - contents_.begin()));
  return true;
}

REEF_INLINE Slots::Held Slots::held_in(std::size_t slot) const {
  const int segment = contents_[slot].segment;
  if (segment < 0) return {segment, {}};
  return {segment, parts_[slot][static_cast<std::size_t>(segment)]};
}

}  // namespace run
}  // namespace v0
}  // namespace reef
