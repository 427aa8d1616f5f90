#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Memory of the device that segments use one after another: some slots, each as large as the
/// largest segment needs, and in each a part for every operand of a segment. The slot that has been used
/// longest ago is taken next, and by whom is in the order of the program: so its reuse is a dependency,
/// and memory stays bounded whatever the speed of the lanes. Where what a segment needs has several versions, those are
/// in slots of their own.
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
        const std::vector<std::vector<Value>>& values);

  [[nodiscard]] bool empty() const { return parts_.empty(); }
  [[nodiscard]] std::size_t size() const { return parts_.size(); }

  using Held = std::pair<int, std::vector<Value>>;  ///< a segment, and its parts; none: -1

  /// The slot that has been used longest ago becomes the segment's, for that version. What was in it till now.
  Held take(int segment, int version = 0);
  /// What is in the slots, by their last use.
  [[nodiscard]] std::vector<Held> all() const;
  /// The slot that has that already is used again; false if there is none.
  bool find(int segment, int version = 0);
  /// What is in the slots counts no more, or that.
  void forget() { std::fill(contents_.begin(), contents_.end(), Content{}); }
  void forget(int segment, int version) {
    std::replace(contents_.begin(), contents_.end(), Content{segment, version}, Content{});
  }

  /// The parts of the segment whose slot has been used last, of its version.
  [[nodiscard]] const std::vector<Value>& parts() const& {
    const std::size_t slot = order_.back();
    return parts_[slot][static_cast<std::size_t>(contents_[slot].segment)];
  }
  void parts() const&& = delete;

private:
  struct Content {
    int segment = -1;  ///< or none
    int version = 0;

    friend bool operator==(const Content&, const Content&) = default;
  };

  [[nodiscard]] Held held_in(std::size_t slot) const;
  void use(std::size_t slot) {
    order_.erase(std::find(order_.begin(), order_.end(), slot));
    order_.push_back(slot);
  }
  static Bytes place_of(const schedule::Program& program, const Value& value) {
    return round_up(program.storages[value.storage].bytes, arena_alignment);
  }

  std::vector<std::vector<std::vector<Value>>> parts_;  ///< by slot and segment
  std::vector<std::size_t> order_;                      ///< slots by their last use
  std::vector<Content> contents_;                       ///< of each slot
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/slots.ipp>
#endif
