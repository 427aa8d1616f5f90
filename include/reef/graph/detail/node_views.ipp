#pragma once

#include <cstddef>

#include <reef/graph/detail/node_views.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

REEF_INLINE void* address_of(const Location& location, const SegmentBindings& bindings,
                             const std::vector<void*>& bound) {
  switch (location.place) {
    case Location::Place::none: return nullptr;
    case Location::Place::bound: return bound[static_cast<std::size_t>(location.tensor)];
    case Location::Place::saved: return static_cast<std::byte*>(bindings.saved) + location.offset;
    case Location::Place::pending: return static_cast<std::byte*>(bindings.pending) + location.offset;
    case Location::Place::workspace: return static_cast<std::byte*>(bindings.workspace) + location.offset;
  }
  return nullptr;
}

/// The view of a tensor in that memory.
inline AnyView view_of(void* data, const TensorSpec& spec) { return {data, spec.shape, spec.element}; }

REEF_INLINE void NodeViews::gather(const Dag& dag, int n, const std::vector<Location>& locations,
                                   const std::vector<Location>& saved_locations, const SegmentBindings& bindings) {
  const Node& node = dag.node_at(n);
  const auto values = [&](std::vector<AnyView>& views, const std::vector<int>& ids) {
    views.clear();
    for (const int id : ids) {
      const Location& location = locations[static_cast<std::size_t>(id)];
      views.push_back(view_of(address_of(location, bindings, bindings.tensors), dag.tensor_at(id).spec));
    }
  };
  values(inputs, node.inputs);
  values(outputs, node.outputs);
  parameters.clear();
  for (const int use : node.uses) {
    const int id = dag.use_at(use).parameter;
    parameters.push_back(view_of(bindings.parameters[static_cast<std::size_t>(id)], dag.parameter_at(id).spec));
  }
  saved.clear();
  for (std::size_t i = 0; i < node.signature.saved.size(); ++i) {
    saved.push_back(view_of(address_of(saved_locations[i], bindings, bindings.tensors), node.signature.saved[i]));
  }
}

REEF_INLINE void NodeViews::gather_gradients(const Dag& dag, int n, const Segment& segment,
                                             const SegmentBindings& bindings) {
  const Node& node = dag.node_at(n);
  const NodePlan& plan = segment.plan(n);
  const auto gradient = [&](int id) {
    const Location& location = segment.gradient[static_cast<std::size_t>(id)];
    return view_of(address_of(location, bindings, bindings.gradients), dag.tensor_at(id).spec);
  };
  if (!node.signature.backward_reads_outputs) {
    for (AnyView& output : outputs) output = view_of(nullptr, {output.shape(), output.element()});
  }
  output_gradients.clear();
  for (const int id : node.outputs) output_gradients.push_back(gradient(id));
  input_gradients.clear();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const int id = node.inputs[i];
    switch (plan.input_gradient[i]) {
      case GradientWrite::none:
        input_gradients.push_back(view_of(nullptr, {Shape{0}, dag.tensor_at(id).spec.element}));
        break;
      case GradientWrite::scratch:
      case GradientWrite::discard:
        input_gradients.push_back(
            view_of(address_of(plan.scratch[i], bindings, bindings.gradients), dag.tensor_at(id).spec));
        break;
      case GradientWrite::write:
      case GradientWrite::add: input_gradients.push_back(gradient(id)); break;
    }
  }
  parameter_gradients.clear();
  for (std::size_t slot = 0; slot < node.uses.size(); ++slot) {
    const int use = node.uses[slot];
    void* data = nullptr;
    if (dag.trains_use(use)) {
      data = bindings.uses[static_cast<std::size_t>(use)];
    } else if (!plan.parameter_scratch.empty()) {
      data = address_of(plan.parameter_scratch[slot], bindings, bindings.gradients);
    }
    parameter_gradients.push_back(view_of(data, dag.gradient_spec(dag.parameter_at(dag.use_at(use).parameter))));
  }
}

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
