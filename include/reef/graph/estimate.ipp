#pragma once

#include <algorithm>
#include <string>

// First: where bodies are in headers, its own reads what the next one has.
#include <reef/graph/segment.hpp>

#include <reef/graph/detail/node_range.hpp>

#include <reef/core/finite.hpp>
#include <reef/core/first_fit.hpp>
#include <reef/core/inline.hpp>
#include <reef/graph/estimate.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

REEF_INLINE profile::OperatorProfile identity_of(const Dag& dag, const Node& node) {
  profile::OperatorProfile entry;
  entry.name = node.name;
  entry.kind = node.kind;
  for (const int use : node.uses) {
    const TensorSpec& spec = dag.parameter_at(dag.use_at(use).parameter).spec;
    entry.parameter_bytes += spec.bytes();
    if (dag.trains_use(use))
      entry.gradient_bytes += static_cast<Bytes>(spec.shape.size()) * size_of(sum_of(spec.element));
  }
  for (const int output : node.outputs) entry.output_bytes += dag.tensor_at(output).spec.bytes();
  return entry;
}

/// What an operator alone has in memory beside parameters and their gradients.
inline void add_working_sets(profile::OperatorProfile& entry, const Dag& dag, int node) {
  const Segment alone = plan_segment(dag, node, node + 1);
  const auto bytes = [&](const std::vector<int>& tensors) {
    Bytes sum = 0;
    for (const int id : tensors) sum += round_up(dag.tensor_at(id).spec.bytes(), arena_alignment);
    return sum;
  };
  entry.forward_set_bytes = bytes(alone.boundary_inputs) + bytes(alone.boundary_outputs) +
                            alone.saved_bytes + alone.forward_workspace_bytes;
  entry.backward_set_bytes = bytes(alone.backward_reads) + bytes(alone.output_gradients) +
                             bytes(alone.input_gradients) + alone.saved_bytes +
                             alone.backward_workspace_bytes;
}

}  // namespace detail

REEF_INLINE profile::Profile workload(const Dag& dag) {
  const Segment segment = plan_segment(dag);
  const detail::NodeRange range(dag, 0, dag.node_count());
  profile::Profile result;
  for (int n = 0; n < dag.node_count(); ++n) {
    const Node& node = dag.node_at(n);
    const Signature& signature = node.signature;
    profile::OperatorProfile entry = detail::identity_of(dag, node);
    detail::add_working_sets(entry, dag, n);
    if (segment.plan(n).active) {
      for (const TensorSpec& spec : signature.saved) {
        entry.saved_bytes += round_up(spec.bytes(), arena_alignment);
      }
    }
    for (const int output : node.outputs) {
      const Bytes bytes = dag.tensor_at(output).spec.bytes();
      // A tensor computed in place of another is counted once, where its memory comes from.
      const Location& location = segment.forward[static_cast<std::size_t>(output)];
      const bool kept = location.place == Location::Place::saved;
      const std::vector<int>& consumers = dag.tensor_at(output).consumers;
      const bool passes_on = std::any_of(consumers.begin(), consumers.end(), [&](int consumer) {
        const std::vector<int>& next = dag.node_at(consumer).outputs;
        return std::any_of(next.begin(), next.end(), [&](int id) {
          return segment.forward[static_cast<std::size_t>(id)] == location;
        });
      });
      if (kept && !passes_on) entry.saved_bytes += round_up(bytes, arena_alignment);
    }
    entry.forward_workspace_bytes = signature.forward_workspace;
    entry.backward_workspace_bytes = signature.backward_workspace;
    entry.forward_flops = signature.forward_flops;
    entry.backward_flops = range.backward_flops(n);
    result.operators.push_back(std::move(entry));
  }
  return result;
}

REEF_INLINE profile::Profile estimate(const Dag& dag, const Speed& speed) {
  const auto is_rate = [](double value) { return is_finite(value) && value >= 0; };
  if (!is_rate(speed.flops_per_second) || speed.flops_per_second == 0 ||
      !is_rate(speed.bytes_per_second) || !is_rate(speed.copy_bytes_per_second)) {
    throw OptionError(
        "reef::graph::estimate: ", speed.flops_per_second, " operations, ", speed.bytes_per_second,
        " and ", speed.copy_bytes_per_second,
        " bytes per second are no speed.\n  fix: operations above 0, bytes too, or 0 where "
        "they are no limit.");
  }
  profile::Profile result = workload(dag);
  result.device = "estimate";
  result.memory_bytes_per_second = speed.bytes_per_second;
  result.copy_bytes_per_second = speed.copy_bytes_per_second;
  for (int n = 0; n < dag.node_count(); ++n) {
    profile::OperatorProfile& entry = result.operators[static_cast<std::size_t>(n)];
    Bytes moved = entry.output_bytes + entry.parameter_bytes;
    for (const int input : dag.node_at(n).inputs) moved += dag.tensor_at(input).spec.bytes();
    const Seconds memory =
        speed.bytes_per_second > 0 ? static_cast<double>(moved) / speed.bytes_per_second : 0;
    entry.forward_s = (std::max)(entry.forward_flops / speed.flops_per_second, memory);
    if (speed.copy_bytes_per_second > 0) {
      entry.load_s = static_cast<double>(entry.parameter_bytes) / speed.copy_bytes_per_second;
    }
    if (entry.backward_flops > 0) {
      entry.backward_s = (std::max)(entry.backward_flops / speed.flops_per_second, 2 * memory);
    }
  }
  return result;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
