#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/comm/agreement.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/hash.hpp>
#include <reef/nn/host/numerics.hpp>
#include <reef/optim/detail/visit_rule.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

/// What a rule does to a few numbers in its first steps: equal constants give equal hashes.
template <class Rule>
std::uint64_t effect_of(const Rule& rule) {
  Hash hash;
  for (const bool decays : {false, true}) {
    double w = 0.75;
    double state[Rule::states + 1] = {};
    std::int64_t t = 0;
    for (const double g : {0.5, -3.0, 1e-6}) {
      Rule::update(w, state, g, rule.template coefficients<double>(++t, 0.1, decays));
      hash.add(w);
      for (const double number : state) hash.add(number);
    }
  }
  return hash.value();
}

/// A rule with its constants, as far as they go by names that are known here; what it does to numbers counts
/// in any case.
template <class Rule>
comm::Alike alike_of_rule(const std::string& name, const Rule& rule) {
  std::string text(Rule::name);
  bool known = false;
  const auto add = [&](std::string_view constant, double value) {
    text += concat(known ? ", " : " with ", constant, " ", value);
    known = true;
  };
  if constexpr (requires { rule.options.beta1; }) add("beta1", rule.options.beta1);
  if constexpr (requires { rule.options.beta2; }) add("beta2", rule.options.beta2);
  if constexpr (requires { rule.options.epsilon; }) add("epsilon", rule.options.epsilon);
  if constexpr (requires { rule.options.momentum; }) add("momentum", rule.options.momentum);
  if constexpr (requires { rule.options.rms; }) add("rms", rule.options.rms);
  if constexpr (requires { rule.options.newton_schulz_steps; }) {
    add("newton_schulz_steps", rule.options.newton_schulz_steps);
  }
  if constexpr (requires { rule.options.weight_decay; }) {
    add("weight_decay", rule.options.weight_decay);
  }
  const std::string effect = concat(effect_of(rule));
  if (!known) text += concat(" whose first updates have the checksum ", effect);
  return {name, concat(text, "; ", effect), text};
}

/// What the ranks' programs do not show of their optimizer policy and options, by the options' names. Further
/// entries are the ones that the caller wants compared.
template <class Optim, class Options>
std::vector<comm::Alike> alike_of(const Options& options) {
  constexpr std::array<std::string_view, 3> reactions{"stop", "skip", "ignore"};
  std::vector<comm::Alike> all = options.alike;
  const auto add = [&](const char* name, const auto&... pieces) {
    all.push_back({name, concat(pieces...)});
  };
  add("optimizer policy", Optim::name);
  if constexpr (requires { Optim::warm_up; }) add("steps of warm-up", Optim::warm_up);
  add("seed", options.seed);
  for (int place = 0; place < optim::rule_count<typename Optim::Rule>; ++place) {
    optim::detail::visit_rule(options.rule, place, [&](const auto& rule) {
      all.push_back(alike_of_rule(place == 0 ? std::string("rule") : concat("rule ", place), rule));
    });
  }
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
  if constexpr (requires { options.optim.outer; }) {
    const auto& o = options.optim;
    constexpr std::array<std::string_view, 3> overlaps{"none", "mix", "eager"};
    add("optim.every", o.every);
    add("optim.fragments", o.fragments);
    add("optim.overlap", overlaps.at(static_cast<std::size_t>(o.overlap)));
    add("optim.mix", o.mix);
    add("optim.outer_learning_rate", o.outer_learning_rate);
    add("optim.divisor", static_cast<int>(o.divisor) == 0 ? "peers" : "senders");
    add("optim.clip_to_median_norm", o.clip_to_median_norm ? "yes" : "no");
    all.push_back(alike_of_rule("optim.outer", o.outer));
  }
  add("communication.deadline", options.communication.deadline, " s");
  add("communication.operation_deadline", options.communication.operation_deadline, " s");
  add("communication.checksums", options.communication.checksums ? "yes" : "no");
  add("instruction set of the processor", device::name_of(device::instruction_set()));
  // The same instruction set with another matrix library, or built with -ffast-math.
  add("numerics class", nn::host::text_of_numerics_class());
  return all;
}

/// What a plan of a step follows from, by names: to say of plans that differ why they do. The plan itself,
/// as a number, comes first.
template <class Options>
std::vector<comm::Alike> alike_of_plan(const graph::Dag& dag, const Options& options,
                                       std::uint64_t plan) {
  std::vector<comm::Alike> all;
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
  return all;
}

}  // namespace detail
}  // namespace v0
}  // namespace reef
