#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/signature.hpp>
#include <reef/torch/detail/errors.hpp>
#include <reef/torch/detail/forward.hpp>
#include <reef/torch/detail/shared_module.hpp>
#include <reef/torch/next_batch.hpp>

namespace reef {
inline namespace v0 {
namespace torch::detail {

inline std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << tensor.sizes();
  return text.str();
}

/// How a graph holds a tensor of a batch: floating-point numbers as `real`, bytes and bools as bytes, else int32.
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

/// Which tensors of the example are of truth values, which a graph holds as bytes.
class BatchTypes {
public:
  explicit BatchTypes(const Tensors& example) {
    for (const at::Tensor& tensor : example) is_bool_.push_back(tensor.scalar_type() == at::kBool);
  }

  /// Those from `first` on, which are the batch's, as a loop of libtorch's has them.
  [[nodiscard]] Tensors restored(const Tensors& given, std::size_t first) const {
    Tensors batch;
    for (std::size_t i = first; i < given.size(); ++i) {
      batch.push_back(is_bool_[i - first] ? given[i].to(at::kBool) : given[i].detach());
    }
    return batch;
  }

private:
  std::vector<bool> is_bool_;
};

/// Copies tensor i of a batch to where the graph has it. Throws ShapeError for other shapes, and for integers that the
/// graph's type does not have; `place`: the rank and the micro-batch.
inline void copy_input(const AnyView& to, const at::Tensor& from, std::size_t i, const std::string& place) {
  at::Tensor target = tensor_of(to);
  if (!from.defined() || from.is_complex() || from.sizes() != target.sizes() ||
      from.is_floating_point() != target.is_floating_point()) {
    throw ShapeError("reef::torch::data_parallel: tensor ", i, " of a batch is ", text_of(from),
                     ", that of the example was ", text_of(target), ", ", place,
                     ".\n  why: all batches have the shapes of the example.\n",
                     "  fix: leave out the last batch if it is smaller, or fill it up.");
  }
  if (!from.is_floating_point() && from.scalar_type() != at::kBool && from.numel() > 0) {
    const bool byte = target.scalar_type() == at::kByte;
    const std::int64_t lowest = byte ? 0 : (std::numeric_limits<std::int32_t>::min)();
    const std::int64_t highest = byte ? 255 : (std::numeric_limits<std::int32_t>::max)();
    const auto [least, most] = at::aminmax(from);
    for (const at::Tensor& end : {least, most}) {
      const auto value = end.item<std::int64_t>();
      if (value >= lowest && value <= highest) continue;
      throw ShapeError("reef::torch::data_parallel: tensor ", i, " of a batch has the number ", value, ", ", place,
                       byte ? ".\n  why: those of the example were bytes or bools, which travel as uint8.\n"
                              "  fix: numbers from 0 to 255, or an example of the type kLong."
                            : ".\n  why: integers travel as int32.\n  fix: smaller numbers.");
    }
  }
  target.copy_(from);
}

/// A run::Source out of a function that gives one batch after another, or out of one batch.
///
/// Of training a micro-batch may be asked for again in the same step or the next one: its batch is kept until then.
class Batches {
public:
  using Weight = std::function<double(const Tensors&)>;

  enum class Use : std::uint8_t { training, evaluation };

  /// The functions draw random numbers of seed, use and micro-batch, and have so many threads of libtorch.
  Batches(Use use, std::uint64_t samples, std::uint64_t seed, int threads, at::Device device, Weight weight)
      : use_(use), call_(use == Use::training ? "step" : "evaluate"), samples_(samples),
        seed_(Hash().add(seed).add(call_).value()), threads_(threads), device_(device), weight_(std::move(weight)) {}

  /// Of the step to come, on this rank.
  void begin(NextBatch next, int rank) {
    begin(rank);
    next_ = std::move(next);
  }
  void begin(const Tensors& batch, int rank) {
    begin(rank);
    one_.emplace();
    // What lies on a GPU is brought by this thread, whose stream it is of.
    for (const at::Tensor& tensor : batch) one_->push_back(tensor.defined() ? tensor.cpu() : tensor);
  }
  void forget() {
    before_.clear();
    now_.clear();
  }

  double fill(std::uint64_t first_sample, std::span<const AnyView> inputs) {
    use_threads(threads_);
    const std::uint64_t number = first_sample / samples_;
    const Tensors& batch = of(number);
    if (batch.size() != inputs.size()) {
      throw ShapeError("reef::torch::data_parallel: a batch of ", batch.size(), " tensors, where the example has ",
                       inputs.size(), ", ", place_of(number), ".\n  fix: as many as the example.");
    }
    {
      const ::torch::NoGradGuard no_gradients;
      for (std::size_t i = 0; i < inputs.size(); ++i) copy_input(inputs[i], batch[i], i, place_of(number));
    }
    return weight_ ? told("weight of a batch", number, [&] { return weight_(batch); }) : 1.0;
  }

private:
  void begin(int rank) {
    next_.reset();
    one_.reset();
    rank_ = rank;
    before_ = std::exchange(now_, {});
  }

  [[nodiscard]] std::string place_of(std::uint64_t number) const {
    return concat("on rank ", rank_, ", for micro-batch ", number);
  }

  /// Calls what the user has given: what it throws is told with the place.
  template <class F>
  std::invoke_result_t<const F&> told(std::string_view what, std::uint64_t number, const F& function) const {
    try {
      return function();
    } catch (...) {
      throw BatchError(std::current_exception(), "reef::torch::DataParallel::", call_, ": the ", what, " has failed ",
                       place_of(number), ": ", words_of(std::current_exception()));
    }
  }

  const Tensors& of(std::uint64_t number) {
    if (const auto found = now_.find(number); found != now_.end()) return found->second;
    if (const auto found = before_.find(number); found != before_.end()) return found->second;
    if (one_) return now_.emplace(number, *std::exchange(one_, std::nullopt)).first->second;
    if (!next_) {
      throw OptionError("reef::torch::DataParallel::", call_,
                        ": the step takes more than the one batch that it was given, ", place_of(number), ".\n",
                        "  why: micro_batches is above 1, or rounds overlap, as those of Acco.\n",
                        "  fix: step(next), with a function that gives one batch after another.");
    }
    Tensors batch = told("function that gives batches", number, [&] {
      return (*next_)(number, Hash().add(seed_).add(number).value(), device_);
    });
    if (use_ == Use::evaluation) now_.clear();  // nobody asks again
    return now_.emplace(number, std::move(batch)).first->second;
  }

  Use use_;
  std::string_view call_;
  std::uint64_t samples_;
  std::uint64_t seed_;
  int threads_;
  at::Device device_;
  Weight weight_;
  std::optional<NextBatch> next_;
  std::optional<Tensors> one_;
  int rank_ = 0;
  std::map<std::uint64_t, Tensors> now_;
  std::map<std::uint64_t, Tensors> before_;
};

}  // namespace torch::detail
}  // namespace v0
}  // namespace reef
