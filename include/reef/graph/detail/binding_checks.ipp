#pragma once

#include <cstddef>

#include <reef/core/error.hpp>
#include <reef/graph/detail/binding_checks.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

inline OptionError no_memory(std::string_view what, std::string_view name) {
  return OptionError("reef::graph: the bindings have no memory for the ", what, " '", name,
                     "', which this segment needs.\n  fix: set its entry before the call.");
}

REEF_INLINE void BindingChecks::forward(Forward forward) const {
  const bool keeps = forward == Forward::keeps || forward == Forward::recomputes;
  const bool recomputes = forward == Forward::recomputes;
  check_memory(keeps ? segment_.saved_bytes : 0,
               keeps ? segment_.forward_workspace_bytes : segment_.inference_workspace_bytes);
  check_tensors("value", recomputes ? segment_.recompute_reads : segment_.boundary_inputs, bindings_.tensors);
  check_tensors("value", recomputes ? segment_.recompute_writes : segment_.boundary_outputs, bindings_.tensors);
}

REEF_INLINE void BindingChecks::backward(BackwardPart part) const {
  const bool whole = part == BackwardPart::all;
  const bool weights = part == BackwardPart::weight;
  if (segment_.splits == whole || part == BackwardPart::none) {
    throw OptionError("reef::graph: a backward of a segment that ",
                      segment_.splits ? "splits is called whole" : "does not split is called by half",
                      ".\n  fix: plan_segment(dag, first, last, Halves::", segment_.splits ? "no" : "yes",
                      "), or the other call.");
  }
  check_memory(segment_.saved_bytes,
               weights ? segment_.weight_half_workspace_bytes : segment_.backward_workspace_bytes);
  if (segment_.pending_bytes != 0 && bindings_.pending == nullptr) {
    throw no_memory("pending gradients of", format_bytes(segment_.pending_bytes));
  }
  check_tensors("value",
                whole     ? segment_.backward_reads
                : weights ? segment_.weight_half_reads
                          : segment_.input_half_reads,
                bindings_.tensors);
  check_tensors("gradient", weights ? segment_.weight_half_gradients : segment_.output_gradients, bindings_.gradients);
  if (!weights) check_tensors("gradient", segment_.input_gradients, bindings_.gradients);
  if (part == BackwardPart::input && !segment_.input_half_has_parameters) return;
  for (const int use : segment_.uses) {
    if (bindings_.uses[static_cast<std::size_t>(use)] == nullptr) {
      throw no_memory("gradient of the parameter", dag_.parameter_at(dag_.use_at(use).parameter).name);
    }
  }
}

REEF_INLINE void BindingChecks::check_memory(Bytes saved, Bytes workspace) const {
  if (segment_.forward.size() != dag_.tensors.size() || segment_.last > dag_.node_count() ||
      bindings_.tensors.size() != dag_.tensors.size() || bindings_.gradients.size() != dag_.tensors.size() ||
      bindings_.parameters.size() != dag_.parameters.size() || bindings_.uses.size() != dag_.uses.size()) {
    throw OptionError(
        "reef::graph: the segment or its bindings were made for another graph.\n"
        "  fix: plan segments and make bindings after the last node is added.");
  }
  if (threads_ > planned_) {
    throw OptionError("reef::graph: the lane has ", threads_, " threads, but scratch memory was planned for ", planned_,
                      ".\n  fix: run graph.serving(device.threads()), or make the Graph with that number.");
  }
  if (saved != 0 && bindings_.saved == nullptr) throw no_memory("saved activations of", format_bytes(saved));
  if (workspace != 0 && bindings_.workspace == nullptr) throw no_memory("workspace of", format_bytes(workspace));
  for (const int id : segment_.parameters) {
    if (bindings_.parameters[static_cast<std::size_t>(id)] == nullptr) {
      throw no_memory("parameter", dag_.parameter_at(id).name);
    }
  }
}

REEF_INLINE void BindingChecks::check_tensors(std::string_view what, const std::vector<int>& ids,
                                              const std::vector<void*>& table) const {
  for (const int id : ids) {
    const Tensor& tensor = dag_.tensor_at(id);
    if (table[static_cast<std::size_t>(id)] == nullptr && tensor.spec.bytes() != 0) {
      throw no_memory(concat(what, " of the tensor"), tensor.name);
    }
  }
}

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
