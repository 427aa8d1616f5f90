#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <reef/core/inline.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/graph/hash.hpp>
#include <reef/nn/host/numerics.hpp>
#include <reef/trainer/detail/agreement.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

REEF_INLINE std::vector<comm::SharedFact> alike_of(const AlikePolicies& policies, const TrainerSettings& options) {
  constexpr std::array<std::string_view, 3> reactions{"stop", "skip", "ignore"};
  std::vector<comm::SharedFact> all = options.alike;
  const auto add = [&](const char* name, const auto&... pieces) {
    all.push_back({name, concat(pieces...)});
  };
  const auto add_all = [&](const std::vector<comm::SharedFact>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  add_all(policies.policy);
  add("seed", options.seed);
  add_all(policies.rules);
  const auto& rate = options.learning_rate;
  add("learning_rate.peak", rate.peak);
  add("learning_rate.warmup", rate.warmup);
  add("learning_rate.steps", rate.steps);
  add("learning_rate.floor", rate.floor);
  // Of a schedule of one's own no more is known to be askable.
  add("learning_rate of the first step", rate.at(0));
  std::string groups;
  for (const auto& group : options.groups) groups += concat(groups.empty() ? "" : "; ", group.text());
  add("groups", groups.empty() ? "none" : groups);
  add("clip_norm", options.clip_norm);
  add("non_finite", reactions.at(static_cast<std::size_t>(options.non_finite)));
  const auto& accumulation = options.accumulation;
  add("accumulation",
      !accumulation.adapts                  ? concat("fixed")
      : accumulation.max_micro_batches == 0 ? concat("adaptive")
                                            : concat("capped at ", accumulation.max_micro_batches),
      static_cast<int>(accumulation.order) == 0 ? "" : ", in a shared order");
  add_all(policies.outer);
  add("communication.deadline", options.communication.deadline, " s");
  add("communication.operation_deadline", options.communication.operation_deadline, " s");
  add("communication.checksums", options.communication.checksums ? "yes" : "no");
  add("instruction set of the processor", device::name_of(device::instruction_set()));
  // The same instruction set with another matrix library, or built with -ffast-math.
  add("numerics class", nn::host::text_of_numerics_class());
  return all;
}

REEF_INLINE std::vector<comm::SharedFact> alike_of_outer(int every, int fragments, int overlap, double mix,
                                                         double learning_rate, bool divides_by_senders,
                                                         bool clips_to_median_norm) {
  constexpr std::array<const char*, 3> overlaps{"none", "mix", "eager"};
  return {{"optim.every", concat(every)},
          {"optim.fragments", concat(fragments)},
          {"optim.overlap", overlaps.at(static_cast<std::size_t>(overlap))},
          {"optim.mix", concat(mix)},
          {"optim.outer_learning_rate", concat(learning_rate)},
          {"optim.divisor", divides_by_senders ? "senders" : "peers"},
          {"optim.clip_to_median_norm", clips_to_median_norm ? "yes" : "no"}};
}

REEF_INLINE std::uint64_t hash_of(const profile::Network& network) {
  Hash hash;
  hash.add(network.devices);
  for (int from = 0; from < network.devices; ++from) {
    for (int to = 0; to < network.devices; ++to) {
      if (from != to) hash.add(network.latency(from, to)).add(network.rate(from, to));
    }
    if (network.has_uplinks()) hash.add(network.uplink(from)).add(network.downlink(from));
  }
  return hash.value();
}

REEF_INLINE std::vector<comm::SharedFact> alike_of_plan(const graph::Dag& dag, const TrainerSettings& options,
                                                   std::uint64_t plan) {
  std::vector<comm::SharedFact> all;
  const auto add = [&](const char* name, const auto&... pieces) {
    all.push_back({name, concat(pieces...)});
  };
  const auto list = [](const auto& numbers) {
    std::string text;
    for (const auto number : numbers) {
      text += concat(text.empty() ? "" : ", ", static_cast<std::int64_t>(number));
    }
    return text.empty() ? std::string("none") : text;
  };
  std::string inputs;
  for (const int input : dag.inputs) {
    const auto& tensor = dag.tensor_at(input);
    inputs += concat(inputs.empty() ? "" : ", ", tensor.name, " ", tensor.spec.shape.text());
  }
  add("plan of a step", "hash ", plan);
  add("model", dag.parameters.size(), " parameters with ", dag.parameter_count(),
      " elements, hash ", graph::hash_of(dag));
  if (const auto given = graph::hash_of_given(dag)) add("values that parameters begin with", "hash ", *given);
  add("shapes of the inputs", inputs);
  add("bucket_bytes", options.bucket_bytes);
  add("communication.piece_bytes", options.communication.piece_bytes);
  add("cuts", list(options.cuts));
  add("activations", list(options.activations));
  if (options.swapping) {
    const auto& s = *options.swapping;
    add("swapping", s.weight_slots, " slots, ", s.resident_segments, " stay, ", s.stash_slots,
        " for stashes", s.per_micro_batch ? ", streams" : "",
        s.copies_on_compute_lane ? ", two lanes" : "", s.writes_back ? ", writes back" : "");
  }
  add("profile", options.profile ? "given" : "none");
  add("network", options.network ? concat("hash ", hash_of(*options.network)) : "none");
  return all;
}

}  // namespace detail
}  // namespace v0
}  // namespace reef
