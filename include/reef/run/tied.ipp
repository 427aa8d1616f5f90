#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/tied.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

REEF_INLINE void TiedWriter::send(int index, std::vector<Value> from, const std::string& what, Bytes bytes, int stage,
                                  std::uint32_t channel, schedule::Traffic traffic, std::string_view download) {
  const StorageId at = host(concat(what, " leaving for stage ", stage), bytes);
  copy(download, Lane::evict, index, std::move(from), {at, 0}, bytes);
  Instruction& send = builder_.program.add(kinds::send_tied, Lane::send, index);
  send.completion = schedule::Completion::posted;
  send.traffic = traffic;
  const SendView view(send, Lists::added);
  view.payload.front() = {at, 0};
  view.message() = message(bytes, stage, channel);
}

REEF_INLINE void TiedWriter::receive(int index, Value to, const std::string& what, Bytes bytes, int stage,
                                     std::uint32_t channel, schedule::Traffic traffic) {
  const StorageId at = host(concat(what, " from stage ", stage), bytes);
  Instruction& receive = builder_.program.add(kinds::receive_tied, Lane::receive, index);
  receive.completion = schedule::Completion::posted;
  receive.traffic = traffic;
  const ReceiveView view(receive, Lists::added);
  view.payload.front() = {at, 0};
  view.message() = message(bytes, stage, channel);
  copy(kinds::upload, Lane::load, index, {{at, 0}}, to, bytes);
}

REEF_INLINE StorageId TiedWriter::host(const std::string& name, Bytes bytes) {
  if (!builder_.updates_within_the_step()) {
    return builder_.program.add_storage(name, bytes, Place::host);
  }
  const std::vector<int>& kept = builder_.plan.weight_versions.kept;
  const auto most = static_cast<std::size_t>(*std::max_element(kept.begin(), kept.end()));
  auto& [storages, used] = builder_.scratch<MessageSlots>().by_name[name];
  if (storages.size() < most)
    storages.push_back(builder_.program.add_storage(name, bytes, Place::host));
  return storages[used++ % most];
}

REEF_INLINE void TiedWriter::copy(std::string_view kind, Lane lane, int index, std::vector<Value> from, Value to,
                                  Bytes bytes) {
  Instruction& copy = builder_.program.add(kind, lane, index);
  copy.reads = std::move(from);
  copy.writes = {to};
  copy.cost.bytes = bytes;
  copy.cost.copies = 1;
}

REEF_INLINE schedule::Message TiedWriter::message(Bytes bytes, int stage, std::uint32_t channel) const {
  const Topology& topology = builder_.plan.topology;
  const comm::Cost cost = comm::message_cost(bytes, builder_.plan.piece_bytes);
  return {topology.rank(topology.replica_of(builder_.rank()), stage), cost.bytes,
          first_tied_channel + channel, cost.messages};
}

}  // namespace detail

REEF_INLINE void add_tied_gradients(StepBuilder& builder, int fold, int sent, int received) {
  const StepPlan& plan = builder.plan;
  detail::TiedWriter writer(builder);
  for (const TiedCopy& tied : plan.tied_copies) {
    const graph::Parameter& parameter = plan.dag->parameter_at(tied.parameter);
    const int owner = plan.owner_of(tied.parameter);
    for (const int use : parameter.uses) {
      if (plan.stage_of_use(use) != tied.stage) continue;
      if (builder.stage() != owner && builder.stage() != tied.stage) continue;
      const StorageId sum = builder.accumulators_of(fold).uses[static_cast<std::size_t>(use)];
      const Bytes bytes = builder.program.storages[sum].bytes;
      const std::string what = concat("gradient of use ", use, " of ", parameter.name);
      const auto channel = 2 * static_cast<std::uint32_t>(use);
      if (builder.stage() == owner) {
        writer.receive(use, {sum, received}, what, bytes, tied.stage, channel,
                       schedule::Traffic::gradient);
      } else {
        writer.send(use, {{sum, sent}}, what, bytes, owner, channel, schedule::Traffic::gradient,
                    kinds::download);
      }
    }
  }
}

REEF_INLINE void add_tied_copy(StepBuilder& builder, const TiedCopy& tied, std::vector<Value> owned, Value copy) {
  const StepPlan& plan = builder.plan;
  const graph::Parameter& parameter = plan.dag->parameter_at(tied.parameter);
  const int owner = plan.owner_of(tied.parameter);
  const std::string what = concat("weights of ", parameter.name);
  const auto channel = 2 * static_cast<std::uint32_t>(tied.parameter) + 1;
  detail::TiedWriter writer(builder);
  if (builder.stage() == owner) {
    writer.send(tied.parameter, std::move(owned), what, parameter.spec.bytes(), tied.stage, channel,
                schedule::Traffic::parameter, kinds::download_tied);
  } else if (builder.stage() == tied.stage) {
    writer.receive(tied.parameter, copy, what, parameter.spec.bytes(), owner, channel,
                   schedule::Traffic::parameter);
  }
}

REEF_INLINE void add_tied_weights(StepBuilder& builder, const std::vector<std::vector<Value>>& weights,
                                  const std::vector<StorageId>& copies, int version) {
  for (const TiedCopy& tied : builder.plan.tied_copies) {
    const auto p = static_cast<std::size_t>(tied.parameter);
    const auto b = static_cast<std::size_t>(builder.plan.bucket_of_parameter[p]);
    add_tied_copy(builder, tied, weights[b], {copies[p], version});
  }
}

REEF_INLINE void add_tied_weights(StepBuilder& builder, int version) {
  builder.sends_tied_weights = true;
  std::vector<std::vector<Value>> made(builder.weights.size());
  for (const std::size_t b : builder.stage_buckets()) made[b] = {{builder.weights[b], version}};
  add_tied_weights(builder, made, builder.tied_weights, version);
}

}  // namespace run
}  // namespace v0
}  // namespace reef
