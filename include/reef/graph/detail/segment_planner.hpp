#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include <reef/graph/detail/placement.hpp>
#include <reef/graph/segment.hpp>

namespace reef::inline v0::graph {

inline GradientFlow gradient_flow(const Dag& dag) {
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

namespace detail {

/// The steps of plan_segment. Steps of time are nodes in forward, and last - 1 - node in backward.
class SegmentPlanner {
public:
  SegmentPlanner(const Dag& dag, int first, int last) : dag_(dag), flow_(gradient_flow(dag)) {
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
    lay_out_saved();
    segment_.forward_workspace_bytes = lay_out_forward(segment_.forward, true);
    segment_.inference_workspace_bytes = lay_out_forward(segment_.inference, false);
    segment_.backward_workspace_bytes = lay_out_backward();
    return std::move(segment_);
  }

private:
  using Place = Location::Place;
  static constexpr int never = std::numeric_limits<int>::max();

  static std::size_t index(int id) { return static_cast<std::size_t>(id); }
  NodePlan& plan(int node) { return segment_.nodes[index(node - segment_.first)]; }
  [[nodiscard]] bool inside(int node) const { return node >= segment_.first && node < segment_.last; }
  [[nodiscard]] bool active(int node) const { return flow_.nodes[index(node)]; }
  [[nodiscard]] int time(int node) const { return segment_.last - 1 - node; }

  [[nodiscard]] bool is_result(int id) const {
    return dag_.loss >= 0 ? id == dag_.loss : dag_.tensor_at(id).consumers.empty();
  }

  /// Whether the tensor is made inside and nobody outside sees it.
  [[nodiscard]] bool is_inner(int id) const {
    const Tensor& tensor = dag_.tensor_at(id);
    return inside(tensor.producer) && !is_result(id) &&
           (tensor.consumers.empty() || tensor.consumers.back() < segment_.last);
  }

  [[nodiscard]] bool later_segments_write_gradient(int id) const {
    const std::vector<int>& consumers = dag_.tensor_at(id).consumers;
    return std::any_of(consumers.begin(), consumers.end(),
                       [&](int n) { return n >= segment_.last && active(n); });
  }

  void find_boundary() {
    std::vector<bool> seen(dag_.tensors.size());
    for (int n = segment_.first; n < segment_.last; ++n) {
      const Node& node = dag_.node_at(n);
      plan(n).active = active(n);
      segment_.forward_flops += node.signature.forward_flops;
      if (active(n)) segment_.backward_flops += node.signature.backward_flops;
      for (const int input : node.inputs) {
        if (inside(dag_.tensor_at(input).producer) || seen[index(input)]) continue;
        seen[index(input)] = true;
        segment_.boundary_inputs.push_back(input);
      }
      for (const int output : node.outputs) {
        if (is_inner(output)) continue;
        segment_.boundary_outputs.push_back(output);
        if (flow_.tensors[index(output)] &&
            (is_result(output) || later_segments_write_gradient(output))) {
          segment_.output_gradients.push_back(output);
        }
      }
      for (const int use : node.uses) {
        segment_.uses.push_back(use);
        segment_.parameters.push_back(dag_.use_at(use).parameter);
      }
    }
    std::sort(segment_.boundary_inputs.begin(), segment_.boundary_inputs.end());
    for (const int input : segment_.boundary_inputs) {
      const std::vector<int>& consumers = dag_.tensor_at(input).consumers;
      const bool written = flow_.tensors[index(input)] &&
                           std::any_of(consumers.begin(), consumers.end(),
                                       [&](int n) { return inside(n) && active(n); });
      if (!written) continue;
      segment_.input_gradients.push_back(input);
      segment_.input_gradient_accumulates.push_back(later_segments_write_gradient(input));
    }
    std::vector<int>& parameters = segment_.parameters;
    std::sort(parameters.begin(), parameters.end());
    parameters.erase(std::unique(parameters.begin(), parameters.end()), parameters.end());
  }

  /// Values that backward reads.
  void find_kept() {
    for (int n = segment_.first; n < segment_.last; ++n) {
      const Node& node = dag_.node_at(n);
      if (!active(n)) continue;
      if (node.signature.backward_reads_inputs) {
        for (const int input : node.inputs) kept_[index(input)] = true;
      }
      if (node.signature.backward_reads_outputs) {
        for (const int output : node.outputs) kept_[index(output)] = true;
      }
    }
    for (const int id : segment_.boundary_inputs) {
      if (kept_[index(id)]) segment_.backward_reads.push_back(id);
    }
    for (const int id : segment_.boundary_outputs) {
      if (kept_[index(id)]) segment_.backward_reads.push_back(id);
    }
  }

  Location in_blob(Bytes bytes) {
    if (bytes == 0) return {};
    const Location location{Place::saved, -1, segment_.saved_bytes};
    segment_.saved_bytes += round_up(bytes, alignment);
    return location;
  }

  /// The blob holds what forward makes in the order in which it makes it.
  void lay_out_saved() {
    for (int n = segment_.first; n < segment_.last; ++n) {
      const Node& node = dag_.node_at(n);
      if (active(n)) {
        for (const TensorSpec& spec : node.signature.saved) {
          plan(n).saved.push_back(in_blob(spec.bytes()));
        }
      }
      for (const int output : node.outputs) {
        if (is_inner(output) && kept_[index(output)]) {
          segment_.forward[index(output)] = in_blob(dag_.tensor_at(output).spec.bytes());
        }
      }
    }
  }

  /// Whether the node may compute its output in place of the input, whose value dies here.
  [[nodiscard]] bool may_run_in_place(int n, int input, int output, bool training) const {
    const Tensor& from = dag_.tensor_at(input);
    const Tensor& to = dag_.tensor_at(output);
    return is_inner(input) && !(training && kept_[index(input)]) && from.consumers.back() == n &&
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
        const int input = node.inputs[index(share.input)];
        const int output = node.outputs[index(share.output)];
        if (taken[index(share.output)] || successor[index(input)] >= 0 ||
            !may_run_in_place(n, input, output, training)) {
          continue;
        }
        taken[index(share.output)] = true;
        successor[index(input)] = output;
      }
    }

    std::vector<Interval> intervals;
    std::vector<Location*> targets;
    const auto need = [&](Location& target, Bytes bytes, int from, int to) {
      if (bytes == 0) return;
      intervals.push_back({bytes, from, to, 0});
      targets.push_back(&target);
    };
    std::vector<int> begin(dag_.tensors.size(), never);  // of the memory that a tensor is in
    for (int n = segment_.first; n < segment_.last; ++n) {
      const Node& node = dag_.node_at(n);
      NodePlan& node_plan = plan(n);
      need(training ? node_plan.forward_workspace : node_plan.inference_workspace,
           node.signature.forward_workspace, n, n);
      std::vector<Location>& saved = training ? node_plan.saved : node_plan.inference_saved;
      if (!training || !active(n)) {
        saved.resize(node.signature.saved.size());
        for (std::size_t i = 0; i < saved.size(); ++i) {
          need(saved[i], node.signature.saved[i].bytes(), n, n);
        }
      }
      for (const int output : node.outputs) {
        const Tensor& tensor = dag_.tensor_at(output);
        begin[index(output)] = std::min(begin[index(output)], n);
        const int next = successor[index(output)];
        if (next >= 0) {
          begin[index(next)] = std::min(begin[index(next)], begin[index(output)]);
        } else if (is_inner(output) && locations[index(output)].place == Place::none) {
          need(locations[index(output)], tensor.spec.bytes(), begin[index(output)],
               tensor.consumers.empty() ? n : tensor.consumers.back());
        }
      }
    }
    const Bytes total = place(intervals);
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      *targets[i] = {Place::workspace, -1, intervals[i].offset};
    }
    for (const int id : segment_.boundary_inputs) locations[index(id)] = {Place::bound, id, 0};
    for (const int id : segment_.boundary_outputs) locations[index(id)] = {Place::bound, id, 0};
    for (int n = segment_.last - 1; n >= segment_.first; --n) {
      for (const int output : dag_.node_at(n).outputs) {
        const int next = successor[index(output)];
        if (next >= 0) locations[index(output)] = locations[index(next)];
      }
    }
    return total;
  }

  /// Memory that holds gradients, one after another or equal ones at once.
  struct Buffer {
    std::vector<int> tensors;
    Location location;    // known beforehand unless it is in the workspace
    bool fixed = false;   // location is known
    bool read_only = false;
    Bytes bytes = 0;
    int first = 0;
    int last = 0;
  };

  /// When the gradient is read for the last time: by its producer, or by whoever is outside.
  [[nodiscard]] int last_read(int id) const {
    const int producer = dag_.tensor_at(id).producer;
    return inside(producer) ? time(producer) : never;
  }

  /// Whether all writes to the gradient of a after `now` come after the last read of that of b.
  [[nodiscard]] bool writes_after_reads(int a, int b, int now) const {
    const std::vector<int>& consumers = dag_.tensor_at(a).consumers;
    return std::all_of(consumers.begin(), consumers.end(), [&](int n) {
      return !inside(n) || !active(n) || time(n) <= now || time(n) > last_read(b);
    });
  }

  /// Whether a gradient that is first written at `now` may lie in the buffer of an output's, which
  /// dies now. `passes`: it is that gradient, so others may go on reading it there.
  [[nodiscard]] bool may_join(const Buffer& buffer, int id, int now, bool passes) const {
    if (buffer.bytes != dag_.tensor_at(id).spec.bytes()) return false;
    if (buffer.read_only) {
      const std::vector<int>& consumers = dag_.tensor_at(id).consumers;
      return passes && std::all_of(consumers.begin(), consumers.end(), [&](int n) {
               return !inside(n) || !active(n) || time(n) <= now;
             });
    }
    return std::all_of(buffer.tensors.begin(), buffer.tensors.end(), [&](int other) {
      return last_read(other) <= now || (passes && writes_after_reads(id, other, now) &&
                                         writes_after_reads(other, id, now));
    });
  }

  /// Whether node n is the last in backward that reads the value of its input, which is inside.
  [[nodiscard]] bool value_dies_in_backward(int n, int input) const {
    const Tensor& tensor = dag_.tensor_at(input);
    if (!is_inner(input) || segment_.forward[index(input)].place != Place::saved) return false;
    const Node& producer = dag_.node_at(tensor.producer);
    if (active(tensor.producer) && producer.signature.backward_reads_outputs) return false;
    return std::none_of(tensor.consumers.begin(), tensor.consumers.end(), [&](int other) {
      return other < n && active(other) && dag_.node_at(other).signature.backward_reads_inputs;
    });
  }

  Bytes lay_out_backward() {
    std::vector<Buffer> buffers;
    std::vector<int> buffer_of(dag_.tensors.size(), -1);
    std::vector<bool> written(dag_.tensors.size());
    const auto open = [&](int id, Buffer buffer) {
      buffer.tensors = {id};
      buffer.bytes = dag_.tensor_at(id).spec.bytes();
      buffer_of[index(id)] = static_cast<int>(buffers.size());
      buffers.push_back(std::move(buffer));
    };
    for (const int id : segment_.output_gradients) {
      open(id, {{}, {Place::bound, id, 0}, true, is_result(id), 0, 0, never});
      written[index(id)] = true;
    }
    for (std::size_t i = 0; i < segment_.input_gradients.size(); ++i) {
      const int id = segment_.input_gradients[i];
      open(id, {{}, {Place::bound, id, 0}, true, false, 0, 0, never});
      written[index(id)] = segment_.input_gradient_accumulates[i];
    }

    std::vector<Interval> intervals;
    std::vector<Location*> targets;
    const auto need = [&](Location& target, Bytes bytes, int from, int to) {
      if (bytes == 0) return;
      intervals.push_back({bytes, from, to, 0});
      targets.push_back(&target);
    };

    for (int n = segment_.last - 1; n >= segment_.first; --n) {
      if (!active(n)) continue;
      const Node& node = dag_.node_at(n);
      NodePlan& node_plan = plan(n);
      const int now = time(n);
      need(node_plan.backward_workspace, node.signature.backward_workspace, now, now);
      node_plan.zero_gradient.resize(node.outputs.size());
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const int output = node.outputs[i];
        if (written[index(output)] || !dag_.tensor_at(output).differentiable) continue;
        node_plan.zero_gradient[i] = true;
        open(output, {{}, {}, false, false, 0, now, now});
      }
      node_plan.input_gradient.resize(node.inputs.size());
      node_plan.scratch.resize(node.inputs.size());
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const int input = node.inputs[i];
        if (!flow_.tensors[index(input)]) {
          const TensorSpec& spec = dag_.tensor_at(input).spec;
          if (!node.signature.writes_all_gradients || !Dag::is_real(spec.element)) continue;
          node_plan.input_gradient[i] = GradientWrite::discard;
          need(node_plan.scratch[i], spec.bytes(), now, now);
          continue;
        }
        const auto here = node.inputs.begin() + static_cast<std::ptrdiff_t>(i);
        const bool again = std::find(node.inputs.begin(), here, input) != here;
        if (written[index(input)]) {
          const bool through = again || node.signature.overwrites_gradients;
          node_plan.input_gradient[i] = through ? GradientWrite::scratch : GradientWrite::add;
          if (through) need(node_plan.scratch[i], dag_.tensor_at(input).spec.bytes(), now, now);
          continue;
        }
        written[index(input)] = true;
        node_plan.input_gradient[i] = GradientWrite::write;
        if (buffer_of[index(input)] < 0) {
          const int shared = shared_buffer(node, static_cast<int>(i), buffers, buffer_of, now);
          if (shared >= 0) {
            buffer_of[index(input)] = shared;
            buffers[index(shared)].tensors.push_back(input);
          } else if (over_input(n, static_cast<int>(i))) {
            open(input, {{}, segment_.forward[index(input)], true, false, 0, now, 0});
          } else {
            open(input, {{}, {}, false, false, 0, now, 0});
          }
        }
        Buffer& buffer = buffers[index(buffer_of[index(input)])];
        buffer.last = std::max(buffer.last, last_read(input));
      }
    }

    for (Buffer& buffer : buffers) {
      if (!buffer.fixed) need(buffer.location, buffer.bytes, buffer.first, buffer.last);
    }
    const Bytes total = place(intervals);
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      *targets[i] = {Place::workspace, -1, intervals[i].offset};
    }
    for (std::size_t id = 0; id < buffer_of.size(); ++id) {
      if (buffer_of[id] >= 0) segment_.gradient[id] = buffers[index(buffer_of[id])].location;
    }
    return total;
  }

  /// The buffer of an output's gradient that the gradient of input i may lie in, or -1.
  [[nodiscard]] int shared_buffer(const Node& node, int i, const std::vector<Buffer>& buffers,
                                  const std::vector<int>& buffer_of, int now) const {
    const int input = node.inputs[index(i)];
    if (std::count(node.inputs.begin(), node.inputs.end(), input) > 1) return -1;
    const auto find = [&](const std::vector<Share>& shares, bool passes) {
      for (const Share& share : shares) {
        if (share.input != i) continue;
        const int buffer = buffer_of[index(node.outputs[index(share.output)])];
        if (buffer >= 0 && may_join(buffers[index(buffer)], input, now, passes)) return buffer;
      }
      return -1;
    };
    const int passed = find(node.signature.gradient_passes, true);
    return passed >= 0 ? passed : find(node.signature.gradient_shares, false);
  }

  [[nodiscard]] bool over_input(int n, int i) const {
    const Node& node = dag_.node_at(n);
    const std::vector<int>& over = node.signature.gradient_over_input;
    const int input = node.inputs[index(i)];
    return std::find(over.begin(), over.end(), i) != over.end() &&
           std::count(node.inputs.begin(), node.inputs.end(), input) == 1 &&
           value_dies_in_backward(n, input);
  }

  const Dag& dag_;
  GradientFlow flow_;
  Segment segment_;
  std::vector<bool> kept_;
};

}  // namespace detail

inline Segment plan_segment(const Dag& dag, int first, int last) {
  if (first < 0 || last < first || last > dag.node_count()) {
    throw OptionError("reef::graph::plan_segment: [" + std::to_string(first) + ", " +
                      std::to_string(last) + ") is no range of the graph's " +
                      std::to_string(dag.node_count()) + " nodes.");
  }
  return detail::SegmentPlanner(dag, first, last).run();
}

}  // namespace reef::inline v0::graph
