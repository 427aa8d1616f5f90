#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/graph/detail/placement.hpp>
#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

/// Nodes [first, last) of a Dag, and what its planners ask about them.
class NodeRange {
public:
  NodeRange(const Dag& dag, int first, int last)
      : dag_(dag), flow_(gradient_flow(dag)), first_(first), last_(last) {}

  static std::size_t to_index(int id) { return static_cast<std::size_t>(id); }

  [[nodiscard]] const Dag& dag() const { return dag_; }
  [[nodiscard]] bool inside(int node) const { return node >= first_ && node < last_; }

  /// Whether backward runs the node.
  [[nodiscard]] bool active(int node) const { return flow_.nodes[to_index(node)]; }

  /// Whether backward reads the values of the node's inputs.
  [[nodiscard]] bool reads_inputs(int node) const {
    const Signature& signature = dag_.node_at(node).signature;
    return signature.backward_reads_inputs && !(signature.inputs_for_parameters && !dag_.trains(dag_.node_at(node)));
  }

  /// The operations of the node's backward.
  [[nodiscard]] double backward_flops(int node) const {
    const Signature& signature = dag_.node_at(node).signature;
    if (!active(node)) return 0;
    const bool all = dag_.node_at(node).uses.empty() || dag_.trains(dag_.node_at(node)) || !signature.splits_backward;
    return all ? signature.backward_flops : (std::max)(0.0, signature.backward_flops - signature.weight_flops);
  }

  /// Whether the tensor has a gradient.
  [[nodiscard]] bool flows(int tensor) const { return flow_.tensors[to_index(tensor)]; }

  /// When backward runs the node: 0 is the first step.
  [[nodiscard]] int time(int node) const { return last_ - 1 - node; }

  [[nodiscard]] bool is_result(int id) const {
    return dag_.loss >= 0 ? id == dag_.loss : dag_.tensor_at(id).consumers.empty();
  }

  /// Whether the tensor is made inside and nobody outside sees it.
  [[nodiscard]] bool is_inner(int id) const {
    const Tensor& tensor = dag_.tensor_at(id);
    return inside(tensor.producer) && !is_result(id) &&
           (tensor.consumers.empty() || tensor.consumers.back() < last_);
  }

  /// Whether a node of a later segment contributes to the tensor's gradient.
  [[nodiscard]] bool later_ones_write_gradient(int id) const {
    const std::vector<int>& consumers = dag_.tensor_at(id).consumers;
    return std::any_of(consumers.begin(), consumers.end(),
                       [&](int n) { return n >= last_ && active(n); });
  }

  /// Whether a node inside contributes to the tensor's gradient after step `now` of backward.
  [[nodiscard]] bool is_written_after(int id, int now) const {
    const std::vector<int>& consumers = dag_.tensor_at(id).consumers;
    return std::any_of(consumers.begin(), consumers.end(),
                       [&](int n) { return inside(n) && active(n) && time(n) > now; });
  }

private:
  const Dag& dag_;
  GradientFlow flow_;
  int first_;
  int last_;
};

/// Pieces of memory that are wanted, each with the place where its Location is to be written.
class Wishes {
public:
  void add(Location& target, Bytes bytes, int first, int last) {
    if (bytes == 0) return;
    intervals_.push_back({bytes, first, last, 0});
    targets_.push_back(&target);
  }

  /// Writes all Locations; returns the bytes of workspace that they need together.
  Bytes grant() {
    const Bytes total = place(intervals_);
    for (std::size_t i = 0; i < intervals_.size(); ++i) {
      *targets_[i] = {Location::Place::workspace, -1, intervals_[i].offset};
    }
    return total;
  }

private:
  std::vector<Interval> intervals_;
  std::vector<Location*> targets_;
};

}  // namespace detail

}  // namespace graph
}  // namespace v0
}  // namespace reef
