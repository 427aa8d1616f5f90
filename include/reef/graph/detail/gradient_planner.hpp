#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <reef/graph/detail/node_range.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// Finds a place for every gradient of a segment whose boundary and saved activations are planned.
///
/// A buffer holds gradients one after another, or equal ones at once: what an addition passes on to
/// both its inputs lies in one place until one of them is added to, after the other's last reader.
///
/// Where a segment splits, what the weight half reads lives on: pending, if it is made inside.
class GradientPlanner {
public:
  GradientPlanner(const NodeRange& range, Segment& segment)
      : range_(range),
        dag_(range.dag()),
        segment_(segment),
        buffer_of_(dag_.tensors.size(), -1),
        written_(dag_.tensors.size()) {}

  /// Writes `gradient` and the nodes' plans of the segment; returns the bytes of workspace.
  Bytes run() {
    for (const int id : segment_.output_gradients) {
      open(id,
           {.location = {Place::bound, id, 0}, .fixed = true, .read_only = range_.is_result(id)});
      written_[to_index(id)] = true;
    }
    for (std::size_t i = 0; i < segment_.input_gradients.size(); ++i) {
      const int id = segment_.input_gradients[i];
      open(id, {.location = {Place::bound, id, 0}, .fixed = true});
      written_[to_index(id)] = segment_.input_gradient_accumulates[i];
    }
    for (int n = segment_.last - 1; n >= segment_.first; --n) {
      if (range_.active(n)) plan_node(n);
    }
    for (Buffer& buffer : buffers_) {
      if (buffer.fixed) continue;
      if (buffer.last == never) {
        buffer.location = {Place::pending, -1, segment_.pending_bytes};
        segment_.pending_bytes += round_up(buffer.bytes, arena_alignment);
      } else {
        wishes_.add(buffer.location, buffer.bytes, buffer.first, buffer.last);
      }
    }
    const Bytes total = wishes_.grant();
    segment_.weight_half_workspace_bytes = weight_wishes_.grant();
    for (std::size_t id = 0; id < buffer_of_.size(); ++id) {
      if (buffer_of_[id] >= 0) segment_.gradient[id] = buffers_[to_index(buffer_of_[id])].location;
    }
    for (const int id : segment_.output_gradients) {
      if (is_read_by_weight_half(id)) segment_.weight_half_gradients.push_back(id);
    }
    return total;
  }

private:
  using Place = Location::Place;
  static constexpr int never = (std::numeric_limits<int>::max)();

  struct Buffer {
    std::vector<int> tensors = {};
    Location location = {};
    bool fixed = false;      // the location is known beforehand; otherwise it is in the workspace
    bool read_only = false;  // the gradient of a result, which the caller may use again
    Bytes bytes = 0;
    int first = 0;
    int last = 0;
  };

  static std::size_t to_index(int id) { return static_cast<std::size_t>(id); }
  [[nodiscard]] const TensorSpec& spec(int id) const { return dag_.tensor_at(id).spec; }

  void open(int id, Buffer buffer) {
    buffer.tensors = {id};
    buffer.bytes = spec(id).bytes();
    buffer_of_[to_index(id)] = static_cast<int>(buffers_.size());
    buffers_.push_back(std::move(buffer));
  }

  void plan_node(int n) {
    const Node& node = dag_.node_at(n);
    NodePlan& plan = segment_.nodes[to_index(n - segment_.first)];
    const int now = range_.time(n);
    const bool in_weight_half = runs_in_weight_half(n);
    if (in_weight_half) {
      weight_wishes_.add(plan.weight_workspace, node.signature.backward_workspace, now, now);
    }
    if (plan.in_weight_half != BackwardPart::all) {
      wishes_.add(plan.backward_workspace, node.signature.backward_workspace, now, now);
    }
    plan.zero_gradient.resize(node.outputs.size());
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const int output = node.outputs[i];
      if (written_[to_index(output)] || !dag_.tensor_at(output).differentiable) continue;
      plan.zero_gradient[i] = true;
      open(output, {.first = now, .last = last_read(output)});
    }
    plan.input_gradient.resize(node.inputs.size());
    plan.scratch.resize(node.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int input = node.inputs[i];
      plan.input_gradient[i] = decide(n, i);
      if (plan.input_gradient[i] == GradientWrite::scratch ||
          plan.input_gradient[i] == GradientWrite::discard) {
        Wishes& wishes = plan.in_weight_half == BackwardPart::all ? weight_wishes_ : wishes_;
        wishes.add(plan.scratch[i], spec(input).bytes(), now, now);
      } else if (plan.input_gradient[i] == GradientWrite::write) {
        place(n, static_cast<int>(i));
        written_[to_index(input)] = true;
      }
    }
    if (!node.signature.skips_gradients) give_scratch(node, plan, now);
  }

  /// Gives an operator that writes all its parameters' gradients memory for those of the frozen ones.
  void give_scratch(const Node& node, NodePlan& plan, int now) {
    plan.parameter_scratch.resize(node.uses.size());
    Wishes& wishes = plan.in_weight_half == BackwardPart::none ? wishes_ : weight_wishes_;
    for (std::size_t slot = 0; slot < node.uses.size(); ++slot) {
      if (dag_.trains_use(node.uses[slot])) continue;
      const Parameter& parameter = dag_.parameter_at(dag_.use_at(node.uses[slot]).parameter);
      wishes.add(plan.parameter_scratch[slot], dag_.gradient_spec(parameter).bytes(), now, now);
    }
  }

  /// How node n writes the gradient of its input i.
  [[nodiscard]] GradientWrite decide(int n, std::size_t i) const {
    const Node& node = dag_.node_at(n);
    const int input = node.inputs[i];
    if (!range_.flows(input)) {
      const bool anyway = node.signature.writes_all_gradients && is_real(spec(input).element);
      return anyway ? GradientWrite::discard : GradientWrite::none;
    }
    if (!written_[to_index(input)]) return GradientWrite::write;
    // A node that reads a tensor twice writes its parts apart, whatever their order.
    const auto here = node.inputs.begin() + static_cast<std::ptrdiff_t>(i);
    const bool again = std::find(node.inputs.begin(), here, input) != here;
    const bool through = again || node.signature.overwrites_gradients;
    return through ? GradientWrite::scratch : GradientWrite::add;
  }

  /// Gives the gradient of input i, which node n is the first to write, its buffer.
  void place(int n, int i) {
    const int input = dag_.node_at(n).inputs[to_index(i)];
    const int now = range_.time(n);
    if (buffer_of_[to_index(input)] < 0) {
      const int shared = shared_buffer(n, i);
      if (shared >= 0) {
        buffer_of_[to_index(input)] = shared;
        buffers_[to_index(shared)].tensors.push_back(input);
      } else if (may_lie_over_input(n, i)) {
        open(input, {.location = segment_.forward[to_index(input)], .fixed = true});
      } else {
        open(input, {.first = now, .last = now});
      }
    }
    Buffer& buffer = buffers_[to_index(buffer_of_[to_index(input)])];
    buffer.last = (std::max)(buffer.last, last_read(input));
  }

  [[nodiscard]] bool runs_in_weight_half(int n) const {
    return range_.inside(n) &&
           segment_.nodes[to_index(n - segment_.first)].in_weight_half != BackwardPart::none;
  }

  /// When the gradient is read for the last time: by its producer, or by whoever is outside.
  [[nodiscard]] int last_read(int id) const {
    const int producer = dag_.tensor_at(id).producer;
    return range_.inside(producer) && !runs_in_weight_half(producer) ? range_.time(producer) : never;
  }

  /// Whether the weight half reads a gradient that lies where that of this boundary output does.
  [[nodiscard]] bool is_read_by_weight_half(int id) const {
    const std::vector<int>& sharing = buffers_[to_index(buffer_of_[to_index(id)])].tensors;
    return std::any_of(sharing.begin(), sharing.end(), [&](int other) {
      return runs_in_weight_half(dag_.tensor_at(other).producer);
    });
  }

  /// Whether all writes to the gradient of a after `now` come after the last read of that of b.
  [[nodiscard]] bool writes_after_reads(int a, int b, int now) const {
    const std::vector<int>& consumers = dag_.tensor_at(a).consumers;
    return std::all_of(consumers.begin(), consumers.end(), [&](int n) {
      return !range_.inside(n) || !range_.active(n) || range_.time(n) <= now ||
             range_.time(n) > last_read(b);
    });
  }

  /// Whether a gradient that is first written at `now` may lie in the buffer of an output's, which
  /// dies now. `passes`: it is that gradient, so others may go on reading it there.
  [[nodiscard]] bool may_join(const Buffer& buffer, int id, int now, bool passes) const {
    if (buffer.bytes != spec(id).bytes()) return false;
    if (buffer.read_only) return passes && !range_.is_written_after(id, now);
    return std::all_of(buffer.tensors.begin(), buffer.tensors.end(), [&](int other) {
      return last_read(other) <= now ||
             (passes && writes_after_reads(id, other, now) && writes_after_reads(other, id, now));
    });
  }

  /// The buffer of an output's gradient that the gradient of input i may lie in, or -1.
  [[nodiscard]] int shared_buffer(int n, int i) const {
    const Node& node = dag_.node_at(n);
    if (!reads_once(node, i)) return -1;
    const int input = node.inputs[to_index(i)];
    const auto find = [&](const std::vector<Share>& shares, bool passes) {
      for (const Share& share : shares) {
        const int buffer = buffer_of_[to_index(node.outputs[to_index(share.output)])];
        if (share.input == i && buffer >= 0 &&
            may_join(buffers_[to_index(buffer)], input, range_.time(n), passes)) {
          return buffer;
        }
      }
      return -1;
    };
    const int passed = find(node.signature.gradient_passes, true);
    return passed >= 0 ? passed : find(node.signature.gradient_shares, false);
  }

  /// Whether the gradient of input i may lie where its value lies: saved, and read by nobody later.
  [[nodiscard]] bool may_lie_over_input(int n, int i) const {
    const Node& node = dag_.node_at(n);
    const std::vector<int>& over = node.signature.gradient_over_input;
    if (std::find(over.begin(), over.end(), i) == over.end() || !reads_once(node, i)) return false;
    const int input = node.inputs[to_index(i)];
    const Tensor& tensor = dag_.tensor_at(input);
    if (!range_.is_inner(input) || segment_.forward[to_index(input)].place != Place::saved) {
      return false;
    }
    const Node& producer = dag_.node_at(tensor.producer);
    if (range_.active(tensor.producer) && producer.signature.backward_reads_outputs) return false;
    return std::none_of(tensor.consumers.begin(), tensor.consumers.end(), [&](int other) {
      return (other < n || runs_in_weight_half(other)) && range_.active(other) &&
             range_.reads_inputs(other);
    });
  }

  static bool reads_once(const Node& node, int i) {
    return std::count(node.inputs.begin(), node.inputs.end(), node.inputs[to_index(i)]) == 1;
  }

  const NodeRange& range_;
  const Dag& dag_;
  Segment& segment_;
  Wishes wishes_;
  Wishes weight_wishes_;
  std::vector<Buffer> buffers_;
  std::vector<int> buffer_of_;  // for each tensor, or -1
  std::vector<bool> written_;   // whether its gradient holds something by now
};

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
