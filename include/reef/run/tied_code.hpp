#pragma once

#include <cstddef>
#include <memory>

#include <reef/comm/point_to_point.hpp>
#include <reef/core/text.hpp>
#include <reef/run/rank_context.hpp>

namespace reef::inline v0::run {

/// Adds the code of DownloadTied, SendTied and ReceiveTied.
template <class Handlers, class RankContext>
void add_tied_code(Handlers& handlers, const RankContext& context) {
  using Communication = typename Handlers::Communication;
  using T = typename RankContext::element_type;
  handlers.on_lane("DownloadTied", [&context](const Instruction& i) -> typename Handlers::Code {
    const StepPlan& plan = context.plan();
    const auto p = static_cast<std::size_t>(i.index);
    const auto b = static_cast<std::size_t>(plan.bucket_of_parameter[p]);
    const auto offset =
        static_cast<Bytes>(plan.layout.parameters[p] - plan.buckets[b].begin) * sizeof(T);
    return [copy = context.memory.copy({i.writes[0].storage}, {i.reads[0].storage, offset},
                                       context.storage(i.writes[0]).bytes)](
               typename Handlers::Lane& lane) { copy(lane); };
  });
  const auto name_of = [](const Instruction& i) {
    return concat("tied ", schedule::name_of(i.traffic), " ", i.index);
  };
  handlers.on_wire("SendTied", [&context, name_of](const Instruction& i) -> Communication {
    return {std::make_shared<comm::SendTask>(name_of(i), i.sends.at(0).peer,
                                             context.template span<std::byte>(i.reads.at(0)))};
  });
  handlers.on_wire("ReceiveTied", [&context, name_of](const Instruction& i) -> Communication {
    return {std::make_shared<comm::ReceiveTask>(name_of(i), i.receives.at(0).peer,
                                                context.template span<std::byte>(i.writes.at(0)))};
  });
}

}  // namespace reef::inline v0::run
