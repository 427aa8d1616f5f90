#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <torch/torch.h>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/signature.hpp>
#include <reef/torch/detail/errors.hpp>
#include <reef/torch/detail/forward.hpp>
#include <reef/torch/detail/meter.hpp>
#include <reef/torch/detail/shared_module.hpp>

namespace reef {
inline namespace v0 {
namespace torch::detail {

/// The gradients of `wanted`, given those of the outputs where they are defined. Of those that nothing depends on:
/// undefined.
inline Tensors gradients(const Tensors& outputs, const Tensors& wanted, const Tensors& seeds) {
  Tensors from;
  Tensors with;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad() || !seeds[i].defined()) continue;
    from.push_back(outputs[i]);
    with.push_back(seeds[i]);
  }
  if (from.empty() || wanted.empty()) return Tensors(wanted.size());
  return ::torch::autograd::grad(from, wanted, with, {}, false, true);
}

/// A module that is called as a node would call it, forward and backward, where its tensors lie, with made-up inputs:
/// normal numbers, and integers that are 0. It refuses what breaks the laws of operators.
class Trial {
public:
  /// `type`: what the module computes in; `widened`: its weights are converted for a call.
  Trial(SharedModule& shared, std::string_view node, std::span<const graph::TensorSpec> inputs, at::ScalarType type,
        bool widened)
      : shared_(shared), node_(node), inputs_(inputs), type_(type) {
    const KeptThreads threads;  // this thread is the user's
    // On a GPU the first calls take what libtorch keeps for all later ones.
    for (int calls = shared.device.is_cpu() ? 1 : 2; calls > 0; --calls) {
      call_without_gradients();
      call_with_gradients();
    }
    if (!widened) return;
    for (const Named& parameter : shared.parameters) {
      const Bytes copy = sizeof(float) * static_cast<Bytes>(parameter.original.numel());
      heap_bytes_ += copy;
      kept_bytes_ += copy;  // a graph may save it
    }
  }

  [[nodiscard]] const Tensors& outputs() const { return outputs_; }
  [[nodiscard]] double flops() const { return flops_; }             ///< of a forward
  [[nodiscard]] Bytes heap_bytes() const { return heap_bytes_; }    ///< the most of a forward and a backward
  /// What is held behind a forward whose graph is kept.
  [[nodiscard]] Bytes kept_bytes() const { return kept_bytes_; }

private:
  void call_without_gradients() {
    const HeapMeter heap;
    const Call module(shared_, {.type = type_, .device = shared_.device});
    const ::torch::NoGradGuard no_gradients;
    const Tensors given = made_up(false);
    const std::vector<std::uint64_t> constants = hashes_of_constants();
    {
      const FlopMeter flops;
      outputs_ = module(given);
      flops_ = flops.flops();
    }
    heap_bytes_ = heap.peak();
    for (const at::Tensor& output : outputs_) require_numbers(output);
    require_constants(constants);
  }

  void call_with_gradients() {
    const HeapMeter heap;
    const Call module(shared_, {.type = type_, .device = shared_.device});
    const Bytes of_call = heap.now();  // the state of the default generator
    const Tensors given = made_up(true);
    const Tensors outputs = module(given);
    kept_bytes_ = heap.now() - of_call;
    require_same(outputs);
    Tensors wanted;
    for (const at::Tensor& input : given) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    for (const Named& parameter : shared_.parameters) wanted.push_back(parameter.tensor);
    Tensors seeds;
    for (const at::Tensor& output : outputs) seeds.push_back(at::ones_like(output));
    static_cast<void>(gradients(outputs, wanted, seeds));
    heap_bytes_ = (std::max)(heap_bytes_, heap.peak());
  }

  [[nodiscard]] Tensors made_up(bool differentiable) const {
    Tensors made;
    for (const graph::TensorSpec& spec : inputs_) {
      const auto sizes = sizes_of(spec.shape);
      if (is_real(spec.element)) {
        made.push_back(
            at::randn(sizes, at::TensorOptions(type_).device(shared_.device)).set_requires_grad(differentiable));
      } else {
        made.push_back(at::zeros(
            sizes, at::TensorOptions(spec.element == Element::int32 ? at::kLong : at::kByte).device(shared_.device)));
      }
    }
    return made;
  }

  /// An output, or the loss, that cannot be one.
  template <class... Pieces>
  [[nodiscard]] BoundaryError wrong(const Pieces&... pieces) const {
    return BoundaryError(BoundaryError::Side::output, "reef::torch: the node '", node_,
                         "': ", shared_.is_loss ? "the loss" : "an output", " of ", shared_.module->name(), pieces...);
  }

  void require_numbers(const at::Tensor& output) const {
    if (!output.defined()) {
      throw wrong(" is undefined.\n  why: what returns it has returned an at::Tensor that holds nothing.\n",
                  "  fix: a tensor of floating-point numbers on every path.");
    }
    if (!output.is_floating_point()) {
      throw wrong(" is ", c10::toString(output.scalar_type()), ".\n  fix: outputs that are floating-point numbers.");
    }
    if (output.dim() > static_cast<std::int64_t>(Shape::max_rank)) {
      throw wrong(" has ", output.dim(), " axes.\n  fix: at most ", Shape::max_rank, ", by view().");
    }
    if (shared_.is_loss && output.dim() > 0) {
      throw wrong(" has ", output.numel(), " numbers.\n  why: a backward starts from one.\n  fix: their mean.");
    }
  }

  void require_same(const Tensors& outputs) const {
    bool same = outputs.size() == outputs_.size();
    for (std::size_t i = 0; same && i < outputs.size(); ++i)
      same = outputs[i].defined() && same_bits(outputs[i], outputs_[i]);
    if (!same) {
      throw ShapeError("reef::torch: the node '", node_, "': the module ", shared_.module->name(),
                       " gives other bits at a second call with the same inputs and random numbers.\n"
                       "  why: the backward calls it again, and it is to compute the same there.\n"
                       "  fix: random numbers of libtorch's default generator alone, and nothing kept between calls.");
    }
    if (shared_.is_loss && !outputs.front().requires_grad()) {
      throw wrong(
          " does not depend on any parameter that is trained, so that nothing would be learnt.\n"
          "  why: it is a constant, was computed under NoGradGuard or from detach() or item(), or all parameters are "
          "frozen.\n"
          "  fix: a loss of the module's output; requires_grad(true) of what is to be trained.");
    }
  }

  /// Those that the module sees now.
  [[nodiscard]] std::vector<std::uint64_t> hashes_of_constants() const {
    std::vector<std::uint64_t> hashes;
    for (const Named& constant : shared_.constants) hashes.push_back(hash_of(constant.tensor));
    return hashes;
  }

  void require_constants(const std::vector<std::uint64_t>& before) const {
    const std::vector<std::uint64_t> now = hashes_of_constants();
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (now[i] == before[i]) continue;
      throw ShapeError("reef::torch: the node '", node_, "': the module ", shared_.module->name(),
                       " changes its buffer '", shared_.constants[i].name,
                       "' in a forward.\n"
                       "  why: a backward calls the forward again, and ranks and micro-batches would differ.\n"
                       "  fix: track_running_stats(false) of a batch norm, or another norm (torch::nn::GroupNorm).");
    }
  }

  SharedModule& shared_;
  std::string_view node_;
  std::span<const graph::TensorSpec> inputs_;
  at::ScalarType type_;
  Tensors outputs_;
  double flops_ = 0;
  Bytes heap_bytes_ = 0;
  Bytes kept_bytes_ = 0;
};

/// Is the weight of a torch::nn::Linear.
inline bool is_linear(const SharedModule& shared, const Named& parameter) {
  for (const auto& child : shared.module->modules()) {
    const auto* const linear = dynamic_cast<const ::torch::nn::LinearImpl*>(child.get());
    if (linear != nullptr && linear->weight.is_same(parameter.tensor)) return true;
  }
  return false;
}

inline graph::ParameterSpec spec_of_parameter(const SharedModule& shared, const Named& parameter) {
  const at::Tensor here = parameter.original.cpu();
  const at::Tensor values = here.dtype() == at::kDouble ? here : here.to(at::kFloat);
  const auto value = [values](std::int64_t i) {
    return values.dtype() == at::kDouble ? values.template data_ptr<double>()[i]
                                         : static_cast<double>(values.template data_ptr<float>()[i]);
  };
  // What has more axes than a Shape has rows of all but the first.
  const Shape shape = values.dim() <= static_cast<std::int64_t>(Shape::max_rank)
                          ? shape_of(values, parameter.name)
                          : Shape{values.size(0), values.numel() / values.size(0)};
  return {parameter.name, shape, graph::Init::given(value), values.dim() >= 2, is_linear(shared, parameter)};
}

}  // namespace torch::detail
}  // namespace v0
}  // namespace reef
