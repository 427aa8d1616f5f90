#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/transfers.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Adds the code that exchanges parameters used by several stages (instructions DownloadTied, SendTied and ReceiveTied)
/// to the handlers.
template <class Handlers, class RankContext>
void add_tied_code(Handlers& handlers, const RankContext& context) {
  using Communication = typename Handlers::Communication;
  using T = typename RankContext::element_type;
  handlers.on_lane(kinds::download_tied, [&context](const Instruction& i) -> typename Handlers::Code {
    const StepPlan& plan = context.plan();
    const auto p = static_cast<std::size_t>(i.index);
    const auto b = static_cast<std::size_t>(plan.bucket_of_parameter[p]);
    const DownloadTiedView view(i);
    const Value to = view.parameter.front();
    const auto begin =
        static_cast<Bytes>(plan.layout.parameters[p] - plan.buckets[b].begin) * sizeof(T);
    const Bytes end = begin + context.storage(to).bytes;
    std::vector<StorageCopy> parts;
    Bytes at = 0;  // offset in the bucket
    for (const Value from : view.weights) {
      const Bytes behind = at + context.storage(from).bytes;
      const Bytes first = (std::max)(begin, at);
      const Bytes last = (std::min)(end, behind);
      if (first < last) {
        parts.push_back(context.memory.copy({to.storage, first - begin}, {from.storage, first - at},
                                            last - first));
      }
      at = behind;
    }
    return [parts](typename Handlers::Lane& lane) {
      for (const StorageCopy& copy : parts) copy(lane);
    };
  });
  const auto name_of = [](const Instruction& i) {
    return concat("tied ", schedule::name_of(i.traffic), " ", i.index);
  };
  handlers.on_wire(kinds::send_tied, [&context, name_of](const Instruction& i) -> Communication {
    return context.send(name_of(i), i);
  });
  handlers.on_wire(kinds::receive_tied, [&context, name_of](const Instruction& i) -> Communication {
    return context.receive(name_of(i), i);
  });
}

}  // namespace run
}  // namespace v0
}  // namespace reef
