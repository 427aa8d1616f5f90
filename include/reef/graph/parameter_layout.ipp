#pragma once

#include <reef/core/inline.hpp>
#include <reef/graph/parameter_layout.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

REEF_INLINE ParameterLayout parameter_layout(const Dag& dag) {
  ParameterLayout layout;
  layout.uses.assign(dag.uses.size(), -1);
  layout.parameters.resize(dag.parameters.size());
  const auto take = [&](std::int64_t& end, const Parameter& parameter) {
    const std::int64_t offset = end;
    end += ParameterLayout::room(parameter);
    return offset;
  };
  for (const bool frozen : {false, true}) {
    for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
      const Parameter& parameter = dag.parameters[p];
      if (parameter.frozen != frozen) continue;
      layout.parameters[p] = take(layout.parameter_elements, parameter);
      if (!frozen) layout.uses[static_cast<std::size_t>(parameter.uses.at(0))] = layout.parameters[p];
    }
    if (!frozen) layout.trained_elements = layout.parameter_elements;
  }
  layout.gradient_elements = layout.trained_elements;
  for (const Parameter& parameter : dag.parameters) {
    for (std::size_t i = 1; i < parameter.uses.size() && !parameter.frozen; ++i) {
      layout.uses[static_cast<std::size_t>(parameter.uses[i])] =
          take(layout.gradient_elements, parameter);
    }
  }
  return layout;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
