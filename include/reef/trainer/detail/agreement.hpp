#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/comm/agreement.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/visit_rule.hpp>
#include <reef/profile/network.hpp>
#include <reef/trainer/settings.hpp>

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
comm::SharedFact alike_of_rule(const std::string& name, const Rule& rule) {
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

/// What ranks must have alike of a composition: policy and rules, and the options of an outer step.
struct AlikePolicies {
  std::vector<comm::SharedFact> policy{};
  std::vector<comm::SharedFact> rules{};
  std::vector<comm::SharedFact> outer{};
};

/// What the ranks' programs do not show of their optimizer policy and settings, by the settings' names. Further entries
/// are the ones that the caller wants compared.
std::vector<comm::SharedFact> alike_of(const AlikePolicies& policies, const TrainerSettings& settings);

/// Returns the hash of what planning knows of links: latencies, rates, uplinks and downlinks.
std::uint64_t hash_of(const profile::Network& network);

/// What a plan of a step follows from, by names: to say of plans that differ why they do. The plan itself,
/// as a number, comes first.
std::vector<comm::SharedFact> alike_of_plan(const graph::Dag& dag, const TrainerSettings& settings, std::uint64_t plan);

/// "optim.every: 4": of the options of an outer step.
std::vector<comm::SharedFact> alike_of_outer(int every, int fragments, int overlap, double mix, double learning_rate,
                                        bool divides_by_senders, bool clips_to_median_norm);

template <class Optim, class Options>
AlikePolicies alike_policies(const Options& options) {
  AlikePolicies all;
  all.policy.push_back({"optimizer policy", std::string(Optim::name)});
  if constexpr (requires { Optim::warm_up; }) all.policy.push_back({"steps of warm-up", concat(Optim::warm_up)});
  for (int place = 0; place < optim::rule_count<typename Optim::Rule>; ++place) {
    optim::detail::visit_rule(options.rule, place, [&](const auto& rule) {
      all.rules.push_back(alike_of_rule(place == 0 ? std::string("rule") : concat("rule ", place), rule));
    });
  }
  if constexpr (requires { options.optim.outer; }) {
    const auto& o = options.optim;
    all.outer = alike_of_outer(o.every, o.fragments, static_cast<int>(o.overlap), o.mix, o.outer_learning_rate,
                               static_cast<int>(o.divisor) != 0, o.clip_to_median_norm);
    all.outer.push_back(alike_of_rule("optim.outer", o.outer));
  }
  return all;
}

}  // namespace detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/detail/agreement.ipp>
#endif
