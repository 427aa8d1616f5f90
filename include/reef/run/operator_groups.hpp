#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <reef/graph/dag.hpp>
#include <reef/graph/operator_optimizer.hpp>
#include <reef/run/parameter_group.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Returns the parameter groups of a Trainer for the operators' training options in a model file
/// (graph::Model::optimizers, by node).
///
/// | groups | one for each parameter of an operator with options; its pattern is the parameter's name        |
/// | tied   | operators that share a parameter must have the same options for it, if several have options    |
/// | rules  | the names of update rules, as in optim::rule_names; ParameterGroup::rule is an index into them |
/// | errors | OptionError, naming the operators: an unknown rule, operators with different options for one   |
/// |        | parameter, or a parameter name that is a pattern (with * or ?)                                 |
///
/// \code
/// // given: const graph::Dag& dag, const std::vector<std::optional<graph::OperatorOptimizer>>& optimizers
/// using Rule = optim::PerGroup<optim::AdamW, optim::Sgd>;
/// Trainer<optim::Zero1<Rule>>::Options options;
/// options.groups = run::groups_of_operators(dag, optimizers, optim::rule_names<Rule>);
/// \endcode
std::vector<ParameterGroup> groups_of_operators(const graph::Dag& dag,
                                                const std::vector<std::optional<graph::OperatorOptimizer>>& optimizers,
                                                std::span<const std::string_view> rules);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/operator_groups.ipp>
#endif
