#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/operator_groups.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

/// The place of a rule among those that there are.
inline int rule_of_operator(const graph::Node& node, const std::string& name, std::span<const std::string_view> rules) {
  if (name.empty()) return 0;
  const auto found = std::ranges::find(rules, name);
  if (found != rules.end()) return static_cast<int>(found - rules.begin());
  std::string known;
  for (const std::string_view rule : rules) known += concat(known.empty() ? "" : ", ", rule);
  throw OptionError("reef::run: the operator '", node.name, "' is to be trained by the rule ", in_quotes(name),
                    ", and this optimizer has ", known,
                    ".\n  fix: one of these, or optim::PerGroup with that rule too.");
}

}  // namespace detail

REEF_INLINE std::vector<ParameterGroup> groups_of_operators(
    const graph::Dag& dag, const std::vector<std::optional<graph::OperatorOptimizer>>& optimizers,
    std::span<const std::string_view> rules) {
  std::vector<int> says(dag.parameters.size(), -1);  // the first node that says something of it
  std::vector<ParameterGroup> groups;
  for (std::size_t n = 0; n < (std::min)(optimizers.size(), dag.nodes.size()); ++n) {
    if (!optimizers[n]) continue;
    const graph::Node& node = dag.nodes[n];
    const graph::OperatorOptimizer& optimizer = *optimizers[n];
    const int rule = detail::rule_of_operator(node, optimizer.rule, rules);
    for (const int use : node.uses) {
      const auto parameter = static_cast<std::size_t>(dag.use_at(use).parameter);
      const std::string& name = dag.parameters[parameter].name;
      if (says[parameter] >= 0) {
        const auto other = static_cast<std::size_t>(says[parameter]);
        if (*optimizers[other] == optimizer) continue;
        throw OptionError("reef::run: the operators '", dag.nodes[other].name, "' and '", node.name,
                          "' share the parameter '", name, "', and are to be trained in different ways.\n"
                          "  fix: the same for both, or for one of them alone.");
      }
      if (name.find_first_of("*?") != std::string::npos) {
        throw OptionError("reef::run: the parameter ", in_quotes(name), " of the operator '", node.name,
                          "' has a name that is a pattern of others.\n  fix: a name without * and ?.");
      }
      says[parameter] = static_cast<int>(n);
      groups.push_back({.pattern = name, .learning_rate = optimizer.learning_rate,
                        .weight_decay = optimizer.weight_decay, .rule = rule});
    }
  }
  return groups;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
