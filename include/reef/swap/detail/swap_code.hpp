#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/run/memory.hpp>
#include <reef/swap/detail/swap_slots.hpp>
#include <reef/swap/kinds.hpp>
#include <reef/swap/views.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

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
  for (const std::string_view copy : {kinds::load, kinds::load_gradients, kinds::restore,
                                      kinds::write_back, kinds::stash}) {
    handlers.on_lane(copy,
                     [&context](const Instruction& i) -> Code { return context.copies(i); });
  }
  handlers.on_lane(kinds::drop, [&context](const Instruction& drop) -> Code {
    std::vector<std::pair<void*, Bytes>> parts;
    for (const Value& value : drop.writes) {
      parts.emplace_back(context.memory.at(value.storage), context.storage(value).bytes);
    }
    return [parts = std::move(parts)](DeviceLane& lane) {
      for (const auto& [memory, bytes] : parts) poison(lane, memory, bytes);
    };
  });
  handlers.on_lane(kinds::evict, [&context](const Instruction& evict) -> Code {
    using Gradient = typename RankContext::gradient_type;
    struct Leaving {
      run::StorageCopy copy;
      void* from;
    };
    const EvictView view(evict);
    std::vector<Leaving> all;
    const auto add = [&](std::size_t i, Bytes offset, Bytes bytes) {
      const run::StorageId from = view.from[i].storage;
      all.push_back({context.memory.copy({view.to[i].storage, offset}, {from, offset}, bytes),
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
    for (; next < view.to.size(); ++next) add(next, 0, context.storage(view.to[next]).bytes);
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

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef
