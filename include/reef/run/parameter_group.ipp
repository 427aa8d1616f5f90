#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/parameter_group.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE void ParameterGroup::validate() const {
  const auto require_that = [this](bool holds, const char* member, double value) {
    if (holds) return;
    throw OptionError("reef::run::ParameterGroup: ", member, " of '", pattern, "' is ", value,
                      ".\n  fix: from 0 to 1000.");
  };
  if (pattern.empty()) {
    throw OptionError("reef::run::ParameterGroup: a group has no pattern.\n"
                      "  fix: a parameter's name, or a part of it and *.");
  }
  require_that(within(learning_rate, 0, 1e3), "learning_rate", learning_rate);
  if (weight_decay) require_that(within(*weight_decay, 0, 1e3), "weight_decay", *weight_decay);
}

REEF_INLINE std::string ParameterGroup::text() const {
  std::string all = concat(pattern, ": learning rate * ", learning_rate);
  if (weight_decay) all += concat(", weight decay ", *weight_decay);
  if (whole_matrix) all += *whole_matrix ? ", whole matrices" : ", as elements";
  if (rule != 0) all += concat(", rule ", rule);
  return all;
}

REEF_INLINE std::vector<int> groups_of_parameters(const graph::Dag& dag, const std::vector<ParameterGroup>& groups) {
  std::vector<int> of_parameter(dag.parameters.size(), -1);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].validate();
    bool used = false;
    for (std::size_t p = 0; p < of_parameter.size(); ++p) {
      if (of_parameter[p] >= 0 || !groups[g].fits(dag.parameters[p].name)) continue;
      of_parameter[p] = static_cast<int>(g);
      used = true;
    }
    if (used) continue;
    throw OptionError("reef::run: no parameter is in the group '", groups[g].pattern,
                      "'.\n  why: none has such a name, or those that have are in groups before it.\n"
                      "  fix: a pattern of names such as '", dag.parameters.front().name, "', or another order.");
  }
  return of_parameter;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
