#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/graph.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// A language model on a device that runs all T positions at once, and keeps nothing: for operators without code for
/// rows.
template <device::device Device, real T>
class WindowModel {
public:
  using Graph = graph::Graph<Device, T>;

  /// Allocates the memory of a model with the tensors "tokens" (1, T) and "logits" (1, T, V). Parameters are
  /// unspecified until each has been set.
  WindowModel(Device& device, const Graph& model)
      : device_(device), model_(model.serving(device.threads())), lane_(device, "generate"), bindings_(model.dag()) {
    const graph::Dag& dag = model_.dag();
    tokens_ = dag.tensor("tokens");
    logits_ = dag.tensor("logits");
    segment_ = graph::plan_segment_to(dag, logits_);
    for (const int id : segment_.parameters) {
      bindings_.parameter(id) = allocate(dag.parameter_at(id).spec.bytes());
    }
    for (const int id : segment_.boundary_inputs) bind(id);
    for (const int id : segment_.boundary_outputs) bind(id);
    bindings_.workspace = allocate(segment_.inference_workspace_bytes);
  }

  /// As Generator::set_parameter.
  void set_parameter(std::string_view name, std::span<const sum_t<T>> values) {
    const graph::Dag& dag = model_.dag();
    const int id = dag.parameter(name);
    const std::int64_t elements = dag.parameter_at(id).spec.shape.size();
    if (std::ssize(values) != elements) {
      throw ShapeError("reef::nn::Generator: the parameter '", name, "' has ", elements,
                       " elements, ", values.size(), " were given.\n  fix: give all of them.");
    }
    if (bindings_.parameter(id) == nullptr) return;  // no node up to the logits reads it
    const std::vector<T> rounded(values.begin(), values.end());
    run([&](Lane& lane) {
      lane.copy(bindings_.parameter(id), rounded.data(), rounded.size() * sizeof(T),
                device::Copy::to_device);
    });
  }

  /// Returns the V logits behind at most T tokens.
  std::vector<float> logits(std::span<const std::int32_t> text) {
    const graph::Dag& dag = model_.dag();
    // At the front of the window: no position sees the tokens behind it.
    std::vector<std::int32_t> window(text.begin(), text.end());
    window.resize(static_cast<std::size_t>(dag.tensor_at(tokens_).spec.shape[1]), 0);
    std::vector<T> row(static_cast<std::size_t>(dag.tensor_at(logits_).spec.shape[2]));
    const auto* const last = static_cast<const T*>(bindings_.tensor(logits_)) + (text.size() - 1) * row.size();
    run([&](Lane& lane) {
      lane.copy(bindings_.tensor(tokens_), window.data(), window.size() * sizeof(std::int32_t),
                device::Copy::to_device);
      model_.forward(segment_, bindings_, lane, {}, graph::Forward::infers);
      lane.copy(row.data(), last, row.size() * sizeof(T), device::Copy::to_host);
    });
    return {row.begin(), row.end()};
  }

private:
  using Lane = typename Device::Lane;

  void* allocate(Bytes bytes) {
    memory_.push_back(device_.allocate(bytes, "generation"));
    return memory_.back().data();
  }
  void bind(int tensor) {
    bindings_.tensor(tensor) = allocate(model_.dag().tensor_at(tensor).spec.bytes());
  }
  template <class F>
  void run(const F& work) {
    lane_.submit([&work](Lane& lane) { work(lane); });
    lane_.synchronize();
  }

  Device& device_;
  Graph model_;
  std::vector<typename Device::Buffer> memory_;
  Lane lane_;
  graph::SegmentBindings bindings_;
  graph::Segment segment_;
  int tokens_ = -1;
  int logits_ = -1;
};

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
