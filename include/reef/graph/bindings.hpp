#pragma once

#include <cstddef>
#include <vector>

#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Pointers to the caller's memory for one run of a segment (consecutive nodes of a model's graph); vectors are indexed
/// by id; null: unused.
///
/// | tensors    | the values of boundary tensors                                                           |
/// | gradients  | gradients of boundary tensors; backward may overwrite an output's, not a result's        |
/// | parameters | the values of parameters, which forward and backward read                                |
/// | uses       | the gradients of parameters, one accumulator for each use                                |
/// | saved      | Segment::saved_bytes, kept from forward to backward; not needed for inference            |
/// | pending    | Segment::pending_bytes, kept from a backward's input half to its weight half             |
/// | workspace  | scratch memory of the call's *_workspace_bytes, free for reuse after the call            |
/// | life       | the memory must outlive all work that forward and backward enqueue on the device's queue |
/// | alignment  | 64 bytes for each pointer                                                                |
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
