#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/graph/signature.hpp>
#include <reef/torch/detail/forward.hpp>
#include <reef/torch/detail/shared_module.hpp>

namespace reef::inline v0::torch::detail {

inline std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << tensor.sizes();
  return text.str();
}

/// How a graph holds a tensor of a batch: floating-point numbers as `real`, bytes and bools as they are, else int32.
inline graph::TensorSpec spec_of_input(const at::Tensor& tensor, std::size_t i, Element real) {
  if (!tensor.defined() || tensor.is_complex() || tensor.layout() != at::kStrided) {
    throw ShapeError("reef::torch::data_parallel: tensor ", i, " of the example is ", text_of(tensor),
                     ".\n  fix: dense tensors of numbers.");
  }
  const Shape shape = shape_of(tensor, concat("tensor ", i, " of the example"));
  if (tensor.is_floating_point()) return {shape, real};
  const bool byte = tensor.scalar_type() == at::kByte || tensor.scalar_type() == at::kBool;
  return {shape, byte ? Element::uint8 : Element::int32};
}

/// Copies tensor i of a batch to where the graph has it.
inline void copy_input(const AnyView& to, const at::Tensor& from, std::size_t i) {
  at::Tensor target = tensor_of(to);
  if (!from.defined() || from.sizes() != target.sizes() || from.is_floating_point() != target.is_floating_point()) {
    throw ShapeError("reef::torch::data_parallel: tensor ", i, " of a batch is ", text_of(from), ", that of the example was ",
                     text_of(target), ".\n  why: all batches have the shapes of the example.\n",
                     "  fix: leave out the last batch if it is smaller, or fill it up.");
  }
  if (from.scalar_type() == at::kLong) {
    const auto [least, most] = at::aminmax(from);
    for (const at::Tensor& end : {least, most}) {
      const auto value = end.item<std::int64_t>();
      if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) continue;
      throw ShapeError("reef::torch::data_parallel: tensor ", i, " of a batch has the number ", value,
                       ".\n  why: integers travel as int32.\n  fix: smaller numbers.");
    }
  }
  target.copy_(from);
}

/// A run::Source out of a function that gives one batch after another.
///
/// A micro-batch may be asked for again in the same step or the next one: its batch is kept until then.
class Batches {
public:
  using Next = std::function<Tensors(std::uint64_t)>;
  using Weight = std::function<double(const Tensors&)>;

  Batches(std::uint64_t samples, Weight weight) : samples_(samples), weight_(std::move(weight)) {}

  /// Of the step to come.
  void begin(Next next) {
    next_ = std::move(next);
    before_ = std::exchange(now_, {});
  }
  void forget() {
    before_.clear();
    now_.clear();
  }

  double fill(std::uint64_t first_sample, std::span<const AnyView> inputs) {
    const ::torch::NoGradGuard no_gradients;
    const std::uint64_t number = first_sample / samples_;
    const Tensors& batch = of(number);
    if (batch.size() != inputs.size()) {
      throw ShapeError("reef::torch::data_parallel: a batch of ", batch.size(), " tensors, where the example has ", inputs.size(),
                       ".\n  fix: as many as the example.");
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) copy_input(inputs[i], batch[i], i);
    return weight_ ? weight_(batch) : 1.0;
  }

private:
  const Tensors& of(std::uint64_t number) {
    if (const auto found = now_.find(number); found != now_.end()) return found->second;
    if (const auto found = before_.find(number); found != before_.end()) return found->second;
    return now_.emplace(number, next_(number)).first->second;
  }

  std::uint64_t samples_;
  Weight weight_;
  Next next_;
  std::map<std::uint64_t, Tensors> now_;
  std::map<std::uint64_t, Tensors> before_;
};

}  // namespace reef::inline v0::torch::detail
