#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::inline v0::run {

/// Memory of the device that segments use one after another: some slots, each as large as the
/// largest segment needs, and in each a part for every operand of a segment. The slot that has been used
/// longest ago is taken next, and by whom is in the order of the program: so its reuse is a dependency,
/// and memory stays bounded whatever the speed of the lanes.
///
/// \code
/// // given: schedule::Program& program, const std::vector<std::vector<schedule::Value>>& weights
/// run::Slots slots(program, 2, "weights", weights);  // `weights`: by segment
/// if (!slots.find(3)) slots.take(3);
/// const std::vector<schedule::Value> loaded = slots.parts();
/// \endcode
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
      order_.push_back(static_cast<std::size_t>(slot));
      segments_.push_back(-1);
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
  [[nodiscard]] std::size_t size() const { return parts_.size(); }

  using Held = std::pair<int, std::vector<Value>>;  ///< a segment, and its parts; none: -1

  /// The slot that has been used longest ago becomes the segment's. What was in it till now.
  Held take(int segment) {
    const Held before = held_in(order_.front());
    use(order_.front());
    segments_[order_.back()] = segment;
    return before;
  }
  /// What is in the slots, by their last use.
  [[nodiscard]] std::vector<Held> all() const {
    std::vector<Held> all;
    for (const std::size_t slot : order_) all.push_back(held_in(slot));
    return all;
  }
  /// The slot that is the segment's already is used again; false if there is none.
  bool find(int segment) {
    const auto found = std::find(segments_.begin(), segments_.end(), segment);
    if (found == segments_.end()) return false;
    use(static_cast<std::size_t>(found - segments_.begin()));
    return true;
  }
  /// What is in the slots counts no more, or what is of one segment.
  void forget() { std::fill(segments_.begin(), segments_.end(), -1); }
  void forget(int segment) { std::replace(segments_.begin(), segments_.end(), segment, -1); }

  /// The parts of the segment whose slot has been used last.
  [[nodiscard]] const std::vector<Value>& parts() const {
    const std::size_t slot = order_.back();
    return parts_[slot][static_cast<std::size_t>(segments_[slot])];
  }

private:
  [[nodiscard]] Held held_in(std::size_t slot) const {
    const int segment = segments_[slot];
    if (segment < 0) return {segment, {}};
    return {segment, parts_[slot][static_cast<std::size_t>(segment)]};
  }
  void use(std::size_t slot) {
    order_.erase(std::find(order_.begin(), order_.end(), slot));
    order_.push_back(slot);
  }
  static Bytes place_of(const schedule::Program& program, const Value& value) {
    return round_up(program.storages[value.storage].bytes, arena_alignment);
  }

  std::vector<std::vector<std::vector<Value>>> parts_;  ///< by slot and segment
  std::vector<std::size_t> order_;                      ///< slots by their last use
  std::vector<int> segments_;                           ///< whose each slot is, or -1
};

}  // namespace reef::inline v0::run
