#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/core/units.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/measure.hpp>
#include <reef/graph/parameter_layout.hpp>

namespace reef_bench {

/// A graph with memory for one micro-batch: as one segment if `planned`, else cut at every node. Its tokens are below 256.
class StepModel {
public:
  using Host = reef::device::Host;

  StepModel(Host& host, reef::graph::Graph<Host, float> graph, bool planned)
      : host_(host), graph_(std::move(graph)), bindings_(graph_.dag()) {
    const reef::graph::Dag& dag = graph_.dag();
    const int step = planned ? dag.node_count() : 1;
    reef::Bytes workspace = 0;
    for (int first = 0; first < dag.node_count(); first += step) {
      segments_.push_back(reef::graph::plan_segment(dag, first, first + step));
      const reef::graph::Segment& segment = segments_.back();
      saved_.push_back(make(segment.saved_bytes));
      workspace =
          std::max({workspace, segment.forward_workspace_bytes, segment.backward_workspace_bytes});
      for (const auto* ids : {&segment.boundary_inputs, &segment.boundary_outputs}) {
        for (const int id : *ids) bind(bindings_.tensor(id), dag.tensor_at(id).spec.bytes());
      }
      for (const auto* ids : {&segment.output_gradients, &segment.input_gradients}) {
        for (const int id : *ids) bind(bindings_.gradient(id), dag.tensor_at(id).spec.bytes());
      }
    }
    bindings_.workspace = make(workspace);
    activation_bytes = bytes_;
    const reef::graph::ParameterLayout layout = reef::graph::parameter_layout(dag);
    auto* const weights = static_cast<float*>(
        make(static_cast<reef::Bytes>(layout.parameter_elements) * sizeof(float)));
    auto* const gradients = static_cast<float*>(
        make(static_cast<reef::Bytes>(layout.gradient_elements) * sizeof(float)));
    for (std::size_t i = 0; i < dag.parameters.size(); ++i) {
      bindings_.parameters[i] = weights + layout.parameters[i];
      reef::graph::initialise(dag.parameters[i], {1, 0, 0, static_cast<std::uint32_t>(i)},
                              weights + layout.parameters[i]);
    }
    for (std::size_t i = 0; i < dag.uses.size(); ++i) {
      bindings_.uses[i] = gradients + layout.uses[i];
    }
    for (const int input : dag.inputs) {
      auto* const values = static_cast<std::int32_t*>(bindings_.tensor(input));
      for (std::int64_t i = 0; i < dag.tensor_at(input).spec.shape.size(); ++i) {
        values[i] =
            static_cast<std::int32_t>(reef::random_bits({}, static_cast<std::uint64_t>(i)) % 256);
      }
    }
    *static_cast<float*>(bindings_.gradient(dag.loss)) = 1;
  }

  /// Runs forward and backward once.
  void step(Host::Lane& own) {
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      bindings_.saved = saved_[s];
      graph_.forward(segments_[s], bindings_, own, {}, reef::graph::Forward::keeps);
    }
    for (std::size_t s = segments_.size(); s-- > 0;) {
      bindings_.saved = saved_[s];
      graph_.backward(segments_[s], bindings_, own, {}, false);
    }
  }

  [[nodiscard]] double flops() const {
    double sum = 0;
    for (const reef::graph::Segment& segment : segments_) {
      sum += segment.forward_flops + segment.backward_flops;
    }
    return sum;
  }

  reef::Bytes activation_bytes = 0;

private:
  void* make(reef::Bytes bytes) {
    if (bytes == 0) return nullptr;
    memory_.push_back(host_.allocate(bytes, "model"));
    bytes_ += bytes;
    return memory_.back().data();
  }
  void bind(void*& entry, reef::Bytes bytes) {
    if (entry == nullptr) entry = make(bytes);
  }

  Host& host_;
  reef::graph::Graph<Host, float> graph_;
  reef::graph::SegmentBindings bindings_;
  std::vector<reef::graph::Segment> segments_;
  std::vector<void*> saved_;
  std::vector<Host::Buffer> memory_;
  reef::Bytes bytes_ = 0;
};

}  // namespace reef_bench
