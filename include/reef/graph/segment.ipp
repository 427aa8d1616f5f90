#pragma once

#include <cstddef>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/graph/detail/segment_planner.hpp>
#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

REEF_INLINE GradientFlow gradient_flow(const Dag& dag) {
  GradientFlow flow{std::vector<bool>(dag.tensors.size()), std::vector<bool>(dag.nodes.size())};
  const auto decide = [&](int id) {
    const Tensor& tensor = dag.tensor_at(id);
    bool leads = dag.loss >= 0 ? id == dag.loss : tensor.consumers.empty() && tensor.producer >= 0;
    for (const int consumer : tensor.consumers) {
      leads = leads || flow.nodes[static_cast<std::size_t>(consumer)];
    }
    const bool flows = leads && tensor.differentiable;
    flow.tensors[static_cast<std::size_t>(id)] = flows;
    return flows;
  };
  for (int n = dag.node_count() - 1; n >= 0; --n) {
    bool active = false;
    for (const int output : dag.node_at(n).outputs) active = decide(output) || active;
    flow.nodes[static_cast<std::size_t>(n)] = active;
  }
  for (const int input : dag.inputs) decide(input);
  return flow;
}

REEF_INLINE Segment plan_segment(const Dag& dag, int first, int last, Halves halves) {
  if (first < 0 || last < first || last > dag.node_count()) {
    throw OptionError("reef::graph::plan_segment: [", first, ", ", last,
                      ") is no range of the graph's ", dag.node_count(),
                      " nodes.\n  fix: 0 <= first <= last <= the nodes.");
  }
  return detail::SegmentPlanner(dag, first, last, halves).run();
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
