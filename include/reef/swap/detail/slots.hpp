#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::inline v0::swap::detail {

using run::Instruction;
using run::Lane;
using run::Place;
using run::StorageId;
using run::Value;

/// Memory of the device that segments have in turn: some slots, each as large as the largest segment
/// needs, and in each a part for every operand of a segment.
class Slots {
public:
  Slots() = default;

  /// `values`: by segment, what is to lie in a slot.
  Slots(schedule::Program& program, int count, const char* what,
        const std::vector<std::vector<Value>>& values) {
    Bytes largest = 0;
    for (const std::vector<Value>& of_segment : values) {
      Bytes bytes = 0;
      for (const Value& value : of_segment) bytes += place_of(program, value);
      largest = std::max(largest, bytes);
    }
    for (int slot = 0; slot < count; ++slot) {
      const StorageId region =
          program.add_storage(concat("slot ", slot, " of ", what), largest, Place::device);
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

  [[nodiscard]] bool empty() const { return parts_.empty(); }

  /// The slot whose turn it is becomes the segment's.
  void take(int segment) {
    now_ = std::exchange(next_, (next_ + 1) % parts_.size());
    segment_ = static_cast<std::size_t>(segment);
  }
  /// The parts of the segment that has taken a slot last.
  [[nodiscard]] const std::vector<Value>& parts() const { return parts_[now_][segment_]; }

private:
  static Bytes place_of(const schedule::Program& program, const Value& value) {
    return round_up(program.storages[value.storage].bytes, arena_alignment);
  }

  std::vector<std::vector<std::vector<Value>>> parts_;  ///< by slot and segment
  std::size_t next_ = 0;
  std::size_t now_ = 0;
  std::size_t segment_ = 0;
};

/// What a program's stages have in common.
struct SwapSlots {
  Slots weights;
  Slots gradients;                       ///< where something is trained
  Slots crossing;                        ///< where what crosses bounds is stashed: for that,
  Slots blobs;                           ///< for what is kept of segments,
  Slots restored;                        ///< and for both on their way back
  std::map<StorageId, Value> stashed{};  ///< of a storage: where it goes
};

}  // namespace reef::inline v0::swap::detail
