#pragma once

#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/run/memory.hpp>
#include <reef/swap/detail/swap_slots.hpp>

namespace reef::inline v0::swap::detail {

/// Fills what nobody is to read any more with NaN, on a device that checks.
template <class DeviceLane>
void poison(DeviceLane& lane, void* memory, Bytes bytes) {
  if constexpr (requires { lane.poison(memory, bytes); }) lane.poison(memory, bytes);
}

/// Adds the code of Load, LoadGradients, Evict, WriteBack, Stash, Restore and Drop.
///
/// What lies between parameters in a slot is another segment's, and stays there: it has to be 0 where
/// gradients are summed up.
template <class Handlers, class RankContext>
void add_swap_code(Handlers& handlers, const RankContext& context) {
  using Code = typename Handlers::Code;
  using DeviceLane = typename Handlers::Lane;
  for (const char* comes : {"Load", "LoadGradients", "Restore"}) {
    handlers.on_lane(
        comes, [&context](const Instruction& coming) -> Code { return context.copies(coming); });
  }
  handlers.on_lane("Drop", [&context](const Instruction& drop) -> Code {
    std::vector<std::pair<void*, Bytes>> parts;
    for (const Value& value : drop.writes) {
      parts.emplace_back(context.memory.at(value.storage), context.storage(value).bytes);
    }
    return [parts = std::move(parts)](DeviceLane& lane) {
      for (const auto& [memory, bytes] : parts) poison(lane, memory, bytes);
    };
  });
  for (const char* leaves : {"WriteBack", "Stash"}) {
    handlers.on_lane(
        leaves, [&context](const Instruction& leaving) -> Code { return context.copies(leaving); });
  }
  handlers.on_lane("Evict", [&context](const Instruction& evict) -> Code {
    using Gradient = typename RankContext::gradient_type;
    struct Leaving {
      run::StorageCopy copy;
      void* from;
    };
    const std::vector<Value>& targets = evict.writes.empty() ? evict.accumulates : evict.writes;
    std::vector<Leaving> all;
    const auto add = [&](std::size_t i, Bytes offset, Bytes bytes) {
      const run::StorageId from = evict.reads[i].storage;
      all.push_back({context.memory.copy({targets[i].storage, offset}, {from, offset}, bytes),
                     context.memory.template at<std::byte>(from) + offset});
    };
    std::size_t next = 0;
    const int b = context.plan().bucket_of_segment[static_cast<std::size_t>(evict.index)];
    if (b >= 0) {
      for (const auto& [begin, end] : context.plan().parameters_in(b)) {
        add(0, static_cast<Bytes>(begin) * sizeof(Gradient),
            static_cast<Bytes>(end - begin) * sizeof(Gradient));
      }
      next = 1;
    }
    for (; next < targets.size(); ++next) add(next, 0, context.storage(targets[next]).bytes);
    // A diagnosis looks at gradients while they leave.
    const bool last = context.builder.purpose != run::Purpose::diagnosis;
    return [all = std::move(all), last](DeviceLane& lane) {
      for (const Leaving& leaving : all) {
        leaving.copy(lane);
        if (last) poison(lane, leaving.from, leaving.copy.bytes);
      }
    };
  });
}

}  // namespace reef::inline v0::swap::detail
