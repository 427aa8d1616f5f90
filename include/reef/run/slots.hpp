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

/// Device buffers (slots) that swapped segments of the model use one after another: each is as large as the largest
/// segment needs, and has a part for every operand of a segment. In the order of the program, the slot that was used
/// longest ago is used next: so reuse of a slot is a dependency, and memory stays bounded at any speed of the queues.
/// Each version of a segment's values has a slot of its own.
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

  /// Adds reusable buffers, through which segments (parts of the model) pass in turn, to the program, as its storages.
  /// `count`: how many buffers; `values`: for each segment, the tensors that must fit into a buffer together.
  Slots(schedule::Program& program, int count, const char* what,
        const std::vector<std::vector<Value>>& values);

  [[nodiscard]] bool empty() const { return parts_.empty(); }
  [[nodiscard]] std::size_t size() const { return parts_.size(); }

  using Held = std::pair<int, std::vector<Value>>;  ///< the segment in a buffer (-1: none), and its values there

  /// Assigns the buffer that was used longest ago to this version of the segment's values. Returns the buffer's former
  /// content.
  Held take(int segment, int version = 0);
  /// Returns the contents of all buffers, that of the buffer used longest ago first.
  [[nodiscard]] std::vector<Held> all() const;
  /// Marks the buffer that contains this version of the segment's values as used now; returns false if there is none.
  bool find(int segment, int version = 0);
  /// Forgets the contents of all buffers, or of the one with this version of the segment.
  void forget() { std::fill(contents_.begin(), contents_.end(), Content{}); }
  void forget(int segment, int version) {
    std::replace(contents_.begin(), contents_.end(), Content{segment, version}, Content{});
  }

  /// Returns the values in the buffer that was used last, for the segment and version in it.
  [[nodiscard]] const std::vector<Value>& parts() const& {
    const std::size_t slot = order_.back();
    return parts_[slot][static_cast<std::size_t>(contents_[slot].segment)];
  }
  void parts() const&& = delete;

private:
  struct Content {
    int segment = -1;  ///< the segment whose values the buffer holds; -1: the buffer is empty
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

  std::vector<std::vector<std::vector<Value>>> parts_;  ///< the values' places in each buffer, by buffer and segment
  std::vector<std::size_t> order_;                      ///< the buffers by last use, the one used longest ago first
  std::vector<Content> contents_;                       ///< the content of each buffer
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/slots.ipp>
#endif
