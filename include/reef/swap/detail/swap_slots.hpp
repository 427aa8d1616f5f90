#pragma once

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <reef/run/kinds.hpp>
#include <reef/run/slots.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/views.hpp>
#include <reef/swap/kinds.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

using run::Instruction;
using run::Lane;
using run::Place;
using run::Slots;
using run::StorageId;
using run::Value;

/// Whole, or a half.
inline bool is_backward(const Instruction& i) { return run::backward_part(i.kind) != graph::BackwardPart::none; }

/// What a segment computes.
inline bool is_of_model(const Instruction& i) {
  return i.kind == run::kinds::forward || i.kind == run::kinds::recompute || i.kind == run::kinds::add_gradients ||
         is_backward(i);
}

/// That, or what is stashed of it. Others are of the pipeline, such as transfers between stages: their index is no
/// segment's.
inline bool is_of_segment(const Instruction& i) {
  return is_of_model(i) || i.kind == kinds::stash || i.kind == kinds::restore || i.kind == kinds::drop;
}

/// Copies of values, one by one, over the link.
inline void add_copies(schedule::Cost& cost, const schedule::Program& program,
                       const std::vector<Value>& values) {
  for (const Value& value : values) cost.bytes += program.storages[value.storage].bytes;
  cost.copies += static_cast<int>(values.size());
}

/// Says that nobody reads the parts any more, for a device that checks: it fills them with NaN, and verify()
/// refuses who would read them. Takes no time.
inline Instruction drop_of(Lane lane, int segment, std::vector<Value> parts) {
  Instruction drop;
  drop.kind = kinds::drop;
  drop.lane = lane;
  drop.index = segment;
  drop.cost.seconds = 0;
  for (Value& part : parts)
    part.version = (std::numeric_limits<int>::max)();  // of which there are no readers
  drop.writes = std::move(parts);
  return drop;
}

/// What a program's phases have in common.
struct SwapSlots {
  Slots weights;
  Slots gradients;                       ///< where something is trained
  Slots crossing;                        ///< where what crosses bounds is stashed: for that,
  Slots saved;                           ///< for saved activations,
  Slots restored;                        ///< and for both on their way back
  std::map<StorageId, Value> stashed{};  ///< of a storage: where it goes
};

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef
