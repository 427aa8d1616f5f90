#pragma once

#include <cstddef>
#include <vector>

#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Pointers to the caller's memory for one run of a segment: tables by id, null where there is none.
///
/// | tensors    | values of boundary tensors                                                        |
/// | gradients  | of boundary tensors; those of outputs are used up, but for a result's (the loss's) |
/// | parameters | values, read by forward and backward                                              |
/// | uses       | gradients of parameters, one accumulator for each use                             |
/// | saved      | Segment::saved_bytes from forward to backward; not needed for inference           |
/// | pending    | Segment::pending_bytes from the input half of a backward to its weight half        |
/// | workspace  | the *_workspace_bytes of the call, free after it                                  |
/// | life       | until the lane has passed what forward and backward enqueue                       |
/// | alignment  | 64 bytes each                                                                     |
///
/// \code
/// // given: const graph::Dag& dag, float* weight, float* logits
/// graph::SegmentBindings bindings(dag);
/// bindings.parameter(dag.parameter("fc.weight")) = weight;
/// bindings.tensor(dag.tensor("logits")) = logits;
/// \endcode
struct SegmentBindings {
  SegmentBindings() = default;
  explicit SegmentBindings(const Dag& dag)
      : tensors(dag.tensors.size()),
        gradients(dag.tensors.size()),
        parameters(dag.parameters.size()),
        uses(dag.uses.size()) {}

  void*& tensor(int id) & { return tensors[static_cast<std::size_t>(id)]; }
  void*& gradient(int id) & { return gradients[static_cast<std::size_t>(id)]; }
  void*& parameter(int id) & { return parameters[static_cast<std::size_t>(id)]; }
  void*& use(int id) & { return uses[static_cast<std::size_t>(id)]; }

  std::vector<void*> tensors;
  std::vector<void*> gradients;
  std::vector<void*> parameters;
  std::vector<void*> uses;
  void* saved = nullptr;
  void* pending = nullptr;
  void* workspace = nullptr;
};

}  // namespace graph
}  // namespace v0
}  // namespace reef
