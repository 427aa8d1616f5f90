#pragma once

#include <reef/core/inline.hpp>
#include <reef/graph/parameter_layout.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

REEF_INLINE ParameterLayout parameter_layout(const Dag& dag) {
  ParameterLayout layout;
  layout.uses.resize(dag.uses.size());
  const auto take = [&](std::int64_t& end, const Parameter& parameter) {
    const std::int64_t offset = end;
    end += ParameterLayout::room(parameter);
    return offset;
  };
  for (const Parameter& parameter : dag.parameters) {
    layout.parameters.push_back(take(layout.parameter_elements, parameter));
    layout.uses[static_cast<std::size_t>(parameter.uses.at(0))] = layout.parameters.back();
  }
  layout.gradient_elements = layout.parameter_elements;
  for (const Parameter& parameter : dag.parameters) {
    for (std::size_t i = 1; i < parameter.uses.size(); ++i) {
      layout.uses[static_cast<std::size_t>(parameter.uses[i])] =
          take(layout.gradient_elements, parameter);
    }
  }
  return layout;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
