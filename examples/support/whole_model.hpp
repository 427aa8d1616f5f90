#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <reef/core/tensor_view.hpp>
#include <reef/core/units.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/run/rank_context.hpp>

namespace reef_examples {

/// The mean loss of a trained model that rank 0 runs as a whole, so that nothing travels and nothing is compressed. All ranks call it,
/// between steps, since each has its part of the weights; the others get 0. On the host, for a source whose weights are 1.
template <class Trainer>
double loss_in_one_process(Trainer& trainer, const reef::run::Source& source, int micro_batches) {
  using Host = reef::device::Host;
  const auto& model = trainer.model();
  const reef::graph::Dag& dag = model.dag();
  const reef::graph::Segment all = reef::graph::plan_segment(dag);
  reef::graph::SegmentBindings bindings(dag);
  std::vector<Host::Buffer> memory;
  const auto allocate = [&](reef::Bytes bytes) {
    memory.push_back(trainer.device().allocate(bytes, "the whole model"));
    return memory.back().data();
  };
  for (const int id : all.parameters) {
    const auto values = trainer.gather_parameter(dag.parameter_at(id).name);
    if (trainer.rank() != 0) continue;
    void* const weights = bindings.parameter(id) = allocate(dag.parameter_at(id).spec.bytes());
    std::copy(values.begin(), values.end(), static_cast<typename Trainer::T*>(weights));
  }
  if (trainer.rank() != 0) return 0;

  std::vector<reef::AnyView> inputs;
  for (const int id : all.boundary_inputs) {
    const reef::graph::TensorSpec& spec = dag.tensor_at(id).spec;
    inputs.emplace_back(bindings.tensor(id) = allocate(spec.bytes()), spec.shape, spec.element);
  }
  const auto* const loss = static_cast<const typename Trainer::Sum*>(bindings.tensor(dag.loss) = allocate(sizeof(typename Trainer::Sum)));
  bindings.workspace = allocate(all.inference_workspace_bytes);

  double sum = 0;
  Host::Lane lane(trainer.device(), "whole model");
  for (int m = 0; m < micro_batches; ++m) {
    source(static_cast<std::uint64_t>(m * inputs.front().shape()[0]), inputs);
    lane.submit([&](Host::Lane& own) { model.forward(all, bindings, own, {}, reef::graph::Forward::infers); });
    lane.synchronize();
    sum += *loss;
  }
  return sum / micro_batches;
}

}  // namespace reef_examples
