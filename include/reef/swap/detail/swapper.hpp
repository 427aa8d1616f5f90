#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::inline v0::swap::detail {

using run::Instruction;
using run::Lane;
using run::Life;
using run::Place;
using run::StorageId;
using run::Value;

/// Rewrites a stage of the model so that its segments pass through the device in turn.
///
///     for each segment s, ascending:    Load(s)   for each micro-batch j:  Forward(s, j)
///     for each segment s, descending:   Load(s)   for each micro-batch j:  Backward(s, j)   Evict(s)
///
/// Weights are loaded into one of some slots, which they share in turn: a load waits for what runs in its
/// slot, and for nothing else. The last segment stays for its backward. Weights do not change on the
/// device, so they are dropped; gradients are summed there over the micro-batches of a fold, and leave.
///
/// | Load   | reads the weights of the segment's buckets, writes their places in a slot               |
/// | Evict  | reads the gradients' places in a slot, writes gradients_of(segment), in its order       |
/// | bits   | none change: gradients of a segment are summed in ascending micro-batch order, as before |
class Swapper {
public:
  Swapper(run::StepBuilder& builder, int slots)
      : builder_(builder),
        program_(builder.program),
        weight_slots_(static_cast<std::size_t>(slots)),
        gradient_slots_(static_cast<std::size_t>(slots)) {}

  void run() {
    std::vector<Instruction> written;
    written.swap(program_.round);
    reserve(written);
    for (Instruction& instruction : written) {
      if (instruction.kind == "Forward") {
        forwards_.push_back(std::move(instruction));
      } else if (instruction.kind == "Backward") {
        backwards_.push_back(std::move(instruction));
      } else {
        if (instruction.kind.starts_with("Fold")) finish_fold();
        program_.round.push_back(std::move(instruction));
      }
    }
    finish_fold();
  }

private:
  /// Memory of the device that segments have in turn, each with its own parts of it.
  struct Slots {
    std::vector<StorageId> regions;
    std::vector<std::vector<std::vector<StorageId>>> parts;  ///< by slot and segment
    std::size_t next = 0;

    explicit Slots(std::size_t count) : regions(count), parts(count) {}
    /// The slot whose turn it is.
    std::size_t take() { return std::exchange(next, (next + 1) % regions.size()); }
  };

  [[nodiscard]] std::size_t segments() const { return builder_.plan.segments.size(); }

  /// Slots as large as the largest segment needs, and in each a part for each operand of a segment.
  void reserve(const std::vector<Instruction>& written) {
    std::vector<std::vector<Value>> weights(segments());
    std::vector<std::vector<Value>> gradients(segments());
    for (std::size_t s = 0; s < segments(); ++s) {
      weights[s] = builder_.weights_of(builder_.plan.segments[s]);
      gradients[s] = builder_.gradients_of(static_cast<int>(s));
    }
    add_slots(weight_slots_, "weights", weights);
    const bool trains = std::any_of(written.begin(), written.end(),
                                    [](const Instruction& i) { return i.kind == "Backward"; });
    if (trains) add_slots(gradient_slots_, "gradients", gradients);
  }

  void add_slots(Slots& slots, const char* what, const std::vector<std::vector<Value>>& values) {
    const auto bytes_of = [&](const Value& value) {
      return round_up(program_.storages[value.storage].bytes, arena_alignment);
    };
    Bytes largest = 0;
    for (const std::vector<Value>& of_segment : values) {
      Bytes bytes = 0;
      for (const Value& value : of_segment) bytes += bytes_of(value);
      largest = std::max(largest, bytes);
    }
    for (std::size_t slot = 0; slot < slots.regions.size(); ++slot) {
      slots.regions[slot] =
          program_.add_storage(concat("slot ", slot, " of ", what), largest, Place::device);
      slots.parts[slot].resize(values.size());
      for (std::size_t s = 0; s < values.size(); ++s) {
        Bytes offset = 0;
        for (const Value& value : values[s]) {
          slots.parts[slot][s].push_back(program_.add_part(
              concat(program_.storages[value.storage].name, " in slot ", slot), slots.regions[slot],
              offset, program_.storages[value.storage].bytes));
          offset += bytes_of(value);
        }
      }
    }
  }

  /// Writes what the pipeline has written of a fold, segment by segment.
  void finish_fold() {
    const auto by = [](auto order) {
      return
          [order](const Instruction& a, const Instruction& b) { return order(a.index, b.index); };
    };
    std::stable_sort(forwards_.begin(), forwards_.end(), by(std::less<>()));
    std::stable_sort(backwards_.begin(), backwards_.end(), by(std::greater<>()));
    int there = -1;  // the segment whose weights were loaded last
    for (Instruction& forward : forwards_) {
      const int s = forward.index;
      if (s != there) load(there = s);
      replace_weights(forward);
      program_.round.push_back(std::move(forward));
    }
    for (std::size_t i = 0; i < backwards_.size(); ++i) {
      const int s = backwards_[i].index;
      const bool first = i == 0 || backwards_[i - 1].index != s;
      const bool last = i + 1 == backwards_.size() || backwards_[i + 1].index != s;
      if (s != there) load(there = s);
      if (first) gradient_slot_ = gradient_slots_.take();
      const std::vector<Value> sums = run::gradients_of(builder_, backwards_[i]);
      replace_weights(backwards_[i]);
      replace_gradients(backwards_[i], sums);
      program_.round.push_back(std::move(backwards_[i]));
      if (last) evict(s, sums);
    }
    forwards_.clear();
    backwards_.clear();
  }

  void load(int s) {
    const std::vector<Value> weights =
        builder_.weights_of(builder_.plan.segments[static_cast<std::size_t>(s)]);
    if (weights.empty()) return;
    weight_slot_ = weight_slots_.take();
    Instruction& load = program_.add("Load", Lane::load, s);
    load.reads = weights;
    for (const StorageId part : part_of(weight_slots_, weight_slot_, s)) {
      load.writes.push_back({part, 0});
      load.cost.bytes += program_.storages[part].bytes;
    }
  }

  void evict(int s, const std::vector<Value>& gradients) {
    if (gradients.empty()) return;
    Instruction& evict = program_.add("Evict", Lane::evict, s);
    for (const StorageId part : part_of(gradient_slots_, gradient_slot_, s)) {
      evict.reads.push_back({part, 0});
      evict.cost.bytes += program_.storages[part].bytes;
    }
    evict.writes = gradients;
  }

  static const std::vector<StorageId>& part_of(const Slots& slots, std::size_t slot, int s) {
    return slots.parts[slot][static_cast<std::size_t>(s)];
  }

  /// Weights come first among what a Forward and a Backward read.
  void replace_weights(Instruction& instruction) {
    const std::vector<StorageId>& parts = part_of(weight_slots_, weight_slot_, instruction.index);
    for (std::size_t i = 0; i < parts.size(); ++i) instruction.reads[i] = {parts[i], 0};
  }

  /// Gradients come last among what a Backward writes, or accumulates into.
  void replace_gradients(Instruction& backward, const std::vector<Value>& sums) {
    const std::vector<StorageId>& parts = part_of(gradient_slots_, gradient_slot_, backward.index);
    const bool overwrites = run::overwrites_gradients(builder_, backward);
    std::vector<Value>& values = overwrites ? backward.writes : backward.accumulates;
    const std::size_t first = values.size() - sums.size();
    for (std::size_t i = 0; i < parts.size(); ++i) values[first + i] = {parts[i], 0};
  }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  Slots weight_slots_;
  Slots gradient_slots_;
  std::size_t weight_slot_ = 0;  ///< of the segment that runs
  std::size_t gradient_slot_ = 0;
  std::vector<Instruction> forwards_;  ///< of the fold
  std::vector<Instruction> backwards_;
};

/// Adds the code of Load and Evict. What lies between parameters in a slot is another segment's, and stays
/// there: it has to be 0 where gradients are summed up.
template <class Handlers, class Site>
void add_swap_code(Handlers& handlers, const Site& site) {
  using Code = typename Handlers::Code;
  using DeviceLane = typename Handlers::Lane;
  handlers.on_lane("Load", [&site](const Instruction& load) -> Code {
    return site.copies(load, device::Copy::to_device);
  });
  handlers.on_lane("Evict", [&site](const Instruction& evict) -> Code {
    using Gradient = typename Site::gradient_type;
    struct Range {
      Gradient* to;
      const Gradient* from;
      Bytes bytes;
    };
    std::vector<Range> ranges;
    std::size_t next = 0;
    const int b = site.plan().bucket_of_segment[static_cast<std::size_t>(evict.index)];
    if (b >= 0) {
      for (const auto& [begin, end] : site.plan().parameters_in(b)) {
        ranges.push_back({site.template at<Gradient>(evict.writes[0]) + begin,
                          site.template at<Gradient>(evict.reads[0]) + begin,
                          static_cast<Bytes>(end - begin) * sizeof(Gradient)});
      }
      next = 1;
    }
    for (; next < evict.writes.size(); ++next) {
      ranges.push_back({site.template at<Gradient>(evict.writes[next]),
                        site.template at<Gradient>(evict.reads[next]),
                        site.storage(evict.writes[next]).bytes});
    }
    return [ranges = std::move(ranges)](DeviceLane& lane) {
      for (const Range& range : ranges) {
        lane.copy(range.to, range.from, range.bytes, device::Copy::to_host);
      }
    };
  });
}

}  // namespace reef::inline v0::swap::detail
