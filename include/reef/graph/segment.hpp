#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// The location in memory of a tensor or a gradient while a segment (consecutive nodes) runs.
///
/// | none      | nowhere: the tensor does not exist, or is empty                      |
/// | bound     | in the caller's memory, to which SegmentBindings points              |
/// | saved     | `offset` bytes into the saved activations, from forward to backward  |
/// | workspace | `offset` bytes into the workspace, which lives for one call          |
/// | pending   | `offset` bytes into the pending gradients, which the input half of a |
/// |           | backward leaves for the weight half                                  |
struct Location {
  enum class Place : std::uint8_t { none, bound, saved, workspace, pending };
  Place place = Place::none;
  /// Id of the tensor whose memory is used, if `bound`, since one may be computed in place of another.
  int tensor = -1;
  Bytes offset = 0;

  friend bool operator==(const Location&, const Location&) = default;
};

/// The way in which backward writes the gradient of one input of a graph's node.
///
/// | none    | does not write: the input has no gradient                                     |
/// | write   | overwrites the memory: this is the first contribution                         |
/// | add     | adds to the earlier contributions in the memory                               |
/// | scratch | writes to `NodePlan::scratch`, and the graph adds it to earlier contributions |
/// | discard | writes to `NodePlan::scratch`, which nobody reads                             |
enum class GradientWrite : std::uint8_t { none, write, add, scratch, discard };

/// The purpose of a forward pass.
///
/// | keeps      | training: the values that backward reads are kept, in the saved activations |
/// | drops      | training: no values are kept; a forward that `recomputes` them comes before |
/// |            | the backward                                                                |
/// | recomputes | computes the dropped values again, with the same key, and keeps them        |
/// | infers     | inference: no values are kept, and dropout is off                           |
enum class Forward : std::uint8_t { keeps, drops, recomputes, infers };

/// The gradients that one call of a backward computes.
///
/// | all    | gradients of inputs and of parameters                                     |
/// | input  | gradients of inputs, for which the preceding stage waits                  |
/// | weight | gradients of parameters, later, from the same values and output gradients |
///
/// Source: Qi et al., Zero bubble pipeline parallelism, arXiv 2401.10241.
enum class BackwardPart : std::uint8_t { none, all, input, weight };

/// The plan of one node in a segment (consecutive nodes of a graph): where its memory is, and how its backward runs.
struct NodePlan {
  bool active = false;  ///< true: backward runs the node, on one of whose outputs the loss, or else a result, depends
  bool recomputed = false;  ///< true: a recomputation runs the node, since a value that backward reads depends on it
  std::vector<Location> saved;  ///< locations of the tensors that forward keeps: saved, or workspace if not active
  std::vector<Location> inference_saved;  ///< locations of these tensors in a forward that keeps none
  Location forward_workspace;
  Location inference_workspace;
  Location backward_workspace;
  /// The location of the scratch memory of each input's gradient, or none.
  std::vector<Location> scratch;
  std::vector<Location> parameter_scratch;    ///< location of each parameter's gradient, if nobody reads it
  std::vector<GradientWrite> input_gradient;  ///< how the gradient of each input is written
  std::vector<bool> zero_gradient;            ///< true for each output that no node uses, so that its gradient is zero

  /// The part of the node's backward that runs in the input half of the segment's backward, and that of the weight
  /// half, if the segment's backward is split.
  BackwardPart in_input_half = BackwardPart::none;
  BackwardPart in_weight_half = BackwardPart::none;
  Location weight_workspace;  ///< workspace of the weight half of the backward, in place of backward_workspace
  double weight_share = 0;    ///< the fraction of the node's backward operations that are in the weight half
};

/// Nodes [first, last) of a model's graph (Dag) as a unit that runs alone: the tensors that cross its boundary, and the
/// memory location of everything inside it. Plain data; equal on every rank.
///
/// | forward   | reads `boundary_inputs`, writes `boundary_outputs` and the saved activations     |
/// | backward  | reads `backward_reads`, the saved activations and `output_gradients`; writes     |
/// |           | `input_gradients`; it may overwrite saved activations and output gradients       |
/// |           | (except that of a result, such as the loss)                                      |
/// | inference | forward that keeps nothing: needs no saved activations, writes                   |
/// |           | `boundary_outputs` alone                                                         |
/// | recompute | forward after one that kept nothing: reads `recompute_reads`, writes the saved   |
/// |           | activations, and `recompute_writes`: the boundary outputs that it computes on    |
/// |           | the way; skips what backward can do without                                      |
/// | order     | a gradient's contributions are added in reverse topological order, so that the   |
/// |           | bits do not depend on where a Dag is cut: if `input_gradient_accumulates`, a     |
/// |           | later segment has written its contribution before, and this one adds to it       |
/// | halves    | if the segment `splits`, backward is two calls: the input half reads             |
/// |           | `input_half_reads`, writes `input_gradients` and the pending gradients; the      |
/// |           | weight half reads `weight_half_reads`, `weight_half_gradients`, the saved        |
/// |           | activations and the pending gradients. An operator that cannot split runs in the |
/// |           | input half, with its parameters, if an input needs a gradient, else in the       |
/// |           | weight half                                                                      |
/// | alignment | every offset and every size is a multiple of 64                                  |
struct Segment {
  int first = 0;
  int last = 0;

  std::vector<int> boundary_inputs;              ///< tensors from outside the segment that forward reads
  std::vector<int> boundary_outputs;  ///< tensors of the segment that a later segment reads, or that are results
  std::vector<int> backward_reads;               ///< tensors at the segment's boundary whose values backward reads
  std::vector<int> output_gradients;             ///< outputs of the segment whose gradients are given to backward
  std::vector<int> input_gradients;              ///< inputs of the segment whose gradients backward computes
  std::vector<bool> input_gradient_accumulates;  ///< true for each of input_gradients to which backward adds

  std::vector<int> recompute_reads;   ///< inputs of the segment that a recomputation reads
  std::vector<int> recompute_writes;  ///< outputs of the segment that a recomputation writes

  std::vector<int> parameters;  ///< ids of the parameters that forward and backward read, ascending
  /// Ids of the uses of trained parameters, whose gradients backward writes, ascending.
  std::vector<int> uses;

  Bytes saved_bytes = 0;
  Bytes forward_workspace_bytes = 0;
  Bytes inference_workspace_bytes = 0;
  Bytes backward_workspace_bytes = 0;
  double forward_flops = 0;
  double backward_flops = 0;
  double recompute_flops = 0;

  bool splits = false;
  std::vector<int> input_half_reads;       ///< tensors of backward_reads that the input half of the backward reads
  std::vector<int> weight_half_reads;      ///< tensors of backward_reads that the weight half of the backward reads
  std::vector<int> weight_half_gradients;  ///< tensors of output_gradients that the weight half of the backward reads
  /// True: the input half computes gradients of parameters, as an operator cannot split its backward.
  bool input_half_has_parameters = false;
  Bytes pending_bytes = 0;
  /// The bytes of workspace of the weight half of the backward; backward_workspace_bytes are those of the input half.
  Bytes weight_half_workspace_bytes = 0;
  double weight_half_flops = 0;            ///< operations of the weight half of the backward, a part of backward_flops

  std::vector<Location> forward;    ///< location of each tensor of the graph, in a forward that trains
  /// Location of each tensor of the graph, in a forward that keeps no tensor for a backward.
  std::vector<Location> inference;
  std::vector<Location> gradient;  ///< location of each tensor's gradient, in backward
  std::vector<NodePlan> nodes;     ///< the plan (memory, order) of each node of [first, last)

  [[nodiscard]] const NodePlan& plan(int node) const& {
    return nodes[static_cast<std::size_t>(node - first)];
  }
  [[nodiscard]] NodePlan plan(int node) const&& { return plan(node); }
};

/// The gradients that backward computes: those of differentiable tensors on which a result depends.
struct GradientFlow {
  std::vector<bool> tensors;
  std::vector<bool> nodes;  ///< true for each node of the graph that backward runs
};

GradientFlow gradient_flow(const Dag& dag);

/// The number of calls in which a segment's backward runs: one, or two halves (gradients of inputs, of weights).
enum class Halves : bool { no, yes };

/// Plans nodes [first, last) of a graph as a segment, a unit that runs alone. Throws OptionError unless 0 <= first <=
/// last <= the node count. `halves` changes neither the forward nor the tensors that it reads and writes.
///
/// `halves` changes neither the forward nor the tensors that it reads and writes.
///
/// \code
/// // given: const graph::Dag& dag
/// const graph::Segment first = graph::plan_segment(dag, 0, dag.node_count() / 2);
/// const Bytes kept = first.saved_bytes;  // between its forward and its backward
/// \endcode
Segment plan_segment(const Dag& dag, int first, int last, Halves halves = Halves::no);

/// Plans all nodes of a graph as one segment.
inline Segment plan_segment(const Dag& dag) { return plan_segment(dag, 0, dag.node_count()); }

/// Plans the nodes of a graph from the first one to the one that computes `tensor` as a segment, for example for
/// inference up to the logits.
inline Segment plan_segment_to(const Dag& dag, int tensor) {
  return plan_segment(dag, 0, dag.tensor_at(tensor).producer + 1);
}

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/segment.ipp>
#endif
