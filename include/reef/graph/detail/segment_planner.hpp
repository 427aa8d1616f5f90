#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/graph/detail/gradient_planner.hpp>
#include <reef/graph/detail/node_range.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

/// The steps of plan_segment but for the gradients. Steps of time are nodes.
class SegmentPlanner {
public:
  SegmentPlanner(const Dag& dag, int first, int last, Halves halves)
      : dag_(dag), range_(dag, first, last) {
    segment_.splits = halves == Halves::yes;
    segment_.first = first;
    segment_.last = last;
    segment_.nodes.resize(static_cast<std::size_t>(last - first));
    segment_.forward.resize(dag.tensors.size());
    segment_.inference.resize(dag.tensors.size());
    segment_.gradient.resize(dag.tensors.size());
    kept_.resize(dag.tensors.size());
  }

  Segment run() && {
    find_boundary();
    find_kept();
    if (segment_.splits) find_halves();
    lay_out_saved();
    segment_.forward_workspace_bytes = lay_out_forward(segment_.forward, true);
    segment_.inference_workspace_bytes = lay_out_forward(segment_.inference, false);
    segment_.backward_workspace_bytes = GradientPlanner(range_, segment_).run();
    find_recomputed();
    return std::move(segment_);
  }

private:
  using Place = Location::Place;
  static constexpr int never = (std::numeric_limits<int>::max)();

  static std::size_t to_index(int id) { return static_cast<std::size_t>(id); }
  NodePlan& plan(int node) { return segment_.nodes[to_index(node - segment_.first)]; }

  void find_boundary() {
    std::vector<bool> seen(dag_.tensors.size());
    for (int n = segment_.first; n < segment_.last; ++n) {
      const Node& node = dag_.node_at(n);
      plan(n).active = range_.active(n);
      segment_.forward_flops += node.signature.forward_flops;
      segment_.backward_flops += range_.backward_flops(n);
      for (const int input : node.inputs) {
        if (range_.inside(dag_.tensor_at(input).producer) || seen[to_index(input)]) continue;
        seen[to_index(input)] = true;
        segment_.boundary_inputs.push_back(input);
      }
      for (const int output : node.outputs) {
        if (range_.is_inner(output)) continue;
        segment_.boundary_outputs.push_back(output);
        if (range_.flows(output) &&
            (range_.is_result(output) || range_.later_ones_write_gradient(output))) {
          segment_.output_gradients.push_back(output);
        }
      }
      for (const int use : node.uses) {
        if (dag_.trains_use(use)) segment_.uses.push_back(use);
        segment_.parameters.push_back(dag_.use_at(use).parameter);
      }
    }
    std::sort(segment_.boundary_inputs.begin(), segment_.boundary_inputs.end());
    for (const int input : segment_.boundary_inputs) {
      const std::vector<int>& consumers = dag_.tensor_at(input).consumers;
      const bool written = range_.flows(input) &&
                           std::any_of(consumers.begin(), consumers.end(),
                                       [&](int n) { return range_.inside(n) && range_.active(n); });
      if (!written) continue;
      segment_.input_gradients.push_back(input);
      segment_.input_gradient_accumulates.push_back(range_.later_ones_write_gradient(input));
    }
    std::vector<int>& parameters = segment_.parameters;
    std::sort(parameters.begin(), parameters.end());
    parameters.erase(std::unique(parameters.begin(), parameters.end()), parameters.end());
  }

  /// Values that backward reads.
  void find_kept() {
    for (int n = segment_.first; n < segment_.last; ++n) {
      const Node& node = dag_.node_at(n);
      if (!range_.active(n)) continue;
      if (range_.reads_inputs(n)) {
        for (const int input : node.inputs) kept_[to_index(input)] = true;
      }
      if (node.signature.backward_reads_outputs) {
        for (const int output : node.outputs) kept_[to_index(output)] = true;
      }
    }
    for (const int id : segment_.boundary_inputs) {
      if (kept_[to_index(id)]) segment_.backward_reads.push_back(id);
    }
    for (const int id : segment_.boundary_outputs) {
      if (kept_[to_index(id)]) segment_.backward_reads.push_back(id);
    }
  }

  /// Which half runs what of each node, and which values it reads.
  void find_halves() {
    std::vector<bool> read[2];
    for (auto& by_tensor : read) by_tensor.resize(dag_.tensors.size());
    for (int n = segment_.first; n < segment_.last; ++n) {
      if (!range_.active(n)) continue;
      const Node& node = dag_.node_at(n);
      NodePlan& of = plan(n);
      const bool wants = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](int input) { return range_.flows(input); });
      const bool trains = dag_.trains(node);
      if (wants || !trains) of.in_input_half = BackwardPart::all;
      if (!wants && trains) of.in_weight_half = BackwardPart::all;
      if (wants && trains) {
        if (node.signature.splits_backward) {
          of.in_input_half = BackwardPart::input;
          of.in_weight_half = BackwardPart::weight;
        } else {
          segment_.input_half_has_parameters = true;
        }
      }
      const double flops = range_.backward_flops(n);
      if (of.in_weight_half == BackwardPart::all) of.weight_share = 1;
      if (of.in_weight_half == BackwardPart::weight) {
        of.weight_share = flops > 0 ? std::clamp(node.signature.weight_flops / flops, 0.0, 1.0) : 0.5;
      }
      segment_.weight_half_flops += of.weight_share * flops;
      for (const bool weight : {false, true}) {
        if ((weight ? of.in_weight_half : of.in_input_half) == BackwardPart::none) continue;
        const auto mark = [&](const std::vector<int>& ids) {
          for (const int id : ids) read[weight ? 1 : 0][to_index(id)] = true;
        };
        if (range_.reads_inputs(n)) mark(node.inputs);
        if (node.signature.backward_reads_outputs) mark(node.outputs);
      }
    }
    for (const int id : segment_.backward_reads) {
      if (read[0][to_index(id)]) segment_.input_half_reads.push_back(id);
      if (read[1][to_index(id)]) segment_.weight_half_reads.push_back(id);
    }
  }

  Location in_blob(Bytes bytes) {
    if (bytes == 0) return {};
    const Location location{Place::saved, -1, segment_.saved_bytes};
    segment_.saved_bytes += round_up(bytes, arena_alignment);
    return location;
  }

  /// The saved activations lie in the order in which the forward makes them.
  void lay_out_saved() {
    for (int n = segment_.first; n < segment_.last; ++n) {
      const Node& node = dag_.node_at(n);
      if (range_.active(n)) {
        for (const TensorSpec& spec : node.signature.saved) {
          plan(n).saved.push_back(in_blob(spec.bytes()));
        }
      }
      for (const int output : node.outputs) {
        if (range_.is_inner(output) && kept_[to_index(output)]) {
          segment_.forward[to_index(output)] = in_blob(dag_.tensor_at(output).spec.bytes());
        }
      }
    }
  }

  /// Whether the node may compute its output in place of the input, whose value dies here.
  [[nodiscard]] bool may_run_in_place(int n, int input, int output, bool training) const {
    const Tensor& from = dag_.tensor_at(input);
    const Tensor& to = dag_.tensor_at(output);
    return range_.is_inner(input) && !(training && kept_[to_index(input)]) &&
           from.consumers.back() == n &&
           std::count(from.consumers.begin(), from.consumers.end(), n) == 1 &&
           from.spec.bytes() == to.spec.bytes();
  }

  Bytes lay_out_forward(std::vector<Location>& locations, bool training) {
    // For each tensor: which one is computed in its place next.
    std::vector<int> successor(dag_.tensors.size(), -1);
    for (int n = segment_.first; n < segment_.last; ++n) {
      const Node& node = dag_.node_at(n);
      std::vector<bool> taken(node.outputs.size());
      for (const Share& share : node.signature.forward_shares) {
        const int input = node.inputs[to_index(share.input)];
        const int output = node.outputs[to_index(share.output)];
        if (taken[to_index(share.output)] || successor[to_index(input)] >= 0 ||
            !may_run_in_place(n, input, output, training)) {
          continue;
        }
        taken[to_index(share.output)] = true;
        successor[to_index(input)] = output;
      }
    }

    Wishes wishes;
    std::vector<int> begin(dag_.tensors.size(), never);  // of the memory that a tensor is in
    for (int n = segment_.first; n < segment_.last; ++n) {
      const Node& node = dag_.node_at(n);
      NodePlan& node_plan = plan(n);
      wishes.add(training ? node_plan.forward_workspace : node_plan.inference_workspace,
                 node.signature.forward_workspace, n, n);
      std::vector<Location>& saved = training ? node_plan.saved : node_plan.inference_saved;
      if (!training || !range_.active(n)) {
        saved.resize(node.signature.saved.size());
        for (std::size_t i = 0; i < saved.size(); ++i) {
          wishes.add(saved[i], node.signature.saved[i].bytes(), n, n);
        }
      }
      for (const int output : node.outputs) {
        const Tensor& tensor = dag_.tensor_at(output);
        begin[to_index(output)] = (std::min)(begin[to_index(output)], n);
        const int next = successor[to_index(output)];
        if (next >= 0) {
          begin[to_index(next)] = (std::min)(begin[to_index(next)], begin[to_index(output)]);
        } else if (range_.is_inner(output) && locations[to_index(output)].place == Place::none) {
          wishes.add(locations[to_index(output)], tensor.spec.bytes(), begin[to_index(output)],
                     tensor.consumers.empty() ? n : tensor.consumers.back());
        }
      }
    }
    const Bytes total = wishes.grant();
    for (const int id : segment_.boundary_inputs) locations[to_index(id)] = {Place::bound, id, 0};
    for (const int id : segment_.boundary_outputs) locations[to_index(id)] = {Place::bound, id, 0};
    for (int n = segment_.last - 1; n >= segment_.first; --n) {
      for (const int output : dag_.node_at(n).outputs) {
        const int next = successor[to_index(output)];
        if (next >= 0) locations[to_index(output)] = locations[to_index(next)];
      }
    }
    return total;
  }

  /// Nodes that write a saved activation or make a value that the backward reads, and the nodes
  /// that those need.
  void find_recomputed() {
    std::vector<bool> needed = kept_;
    for (int n = segment_.last - 1; n >= segment_.first; --n) {
      const Node& node = dag_.node_at(n);
      const bool fills = plan(n).active && !node.signature.saved.empty();
      const bool makes = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](int output) { return needed[to_index(output)]; });
      plan(n).recomputed = fills || makes;
      if (!plan(n).recomputed) continue;
      segment_.recompute_flops += node.signature.forward_flops;
      for (const int input : node.inputs) needed[to_index(input)] = true;
      for (const int output : node.outputs) {
        const Location& location = segment_.forward[to_index(output)];
        if (location.place == Place::bound) segment_.recompute_writes.push_back(location.tensor);
      }
    }
    const auto is_read = [&](int input) {
      const std::vector<int>& consumers = dag_.tensor_at(input).consumers;
      return std::any_of(consumers.begin(), consumers.end(),
                         [&](int n) { return range_.inside(n) && plan(n).recomputed; });
    };
    std::copy_if(segment_.boundary_inputs.begin(), segment_.boundary_inputs.end(),
                 std::back_inserter(segment_.recompute_reads), is_read);
    std::vector<int>& writes = segment_.recompute_writes;
    std::sort(writes.begin(), writes.end());
    writes.erase(std::unique(writes.begin(), writes.end()), writes.end());
  }

  const Dag& dag_;
  NodeRange range_;
  Segment segment_;
  std::vector<bool> kept_;
};

}  // namespace detail

}  // namespace graph
}  // namespace v0
}  // namespace reef
