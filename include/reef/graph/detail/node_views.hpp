#pragma once

#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/graph/bindings.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// The address of a location; `bound` is the table that it may name.
void* address_of(const Location& location, const SegmentBindings& bindings, const std::vector<void*>& bound);

/// The views of one node's operands. One is used for all nodes of a call, so that it allocates once.
struct NodeViews {
  std::vector<AnyView> inputs, outputs, parameters, saved;
  std::vector<AnyView> output_gradients, input_gradients, parameter_gradients;

  /// Finds the values of node n: tensors at `locations`, by id, and what it keeps at `saved_locations`.
  void gather(const Dag& dag, int n, const std::vector<Location>& locations,
              const std::vector<Location>& saved_locations, const SegmentBindings& bindings);

  /// Finds the gradients that its backward reads and writes.
  void gather_gradients(const Dag& dag, int n, const Segment& segment, const SegmentBindings& bindings);
};

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/detail/node_views.ipp>
#endif
