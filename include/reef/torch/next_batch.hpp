#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <reef/run/rank_context.hpp>
#include <reef/torch/detail/forward.hpp>
#include <reef/torch/detail/generator.hpp>

namespace reef {
inline namespace v0 {
namespace torch {

/// The error of a function that gives batches, or their weights: the rank, the micro-batch, and the text of its
/// exception. The outcome of the step is unknown.
class BatchError : public run::SourceError {
public:
  using SourceError::SourceError;
};

/// A function that gives a batch, of the example's shapes, in one of two forms. `micro_batch`: its number in the job.
///
/// | (micro_batch)            | draws random numbers from libtorch's default generator, and so runs while no module is called      |
/// | (micro_batch, generator) | draws from the generator that it is given, an at::Generator& of the host, and runs beside modules: what takes  |
/// |                          | long, as reading files, overlaps computing. It calls nothing that draws from the default generator, |
/// |                          | as dropout does, and reads no tensor of the module that is trained                           |
/// | thread                   | another one, while a step runs; one call after another, with as many threads of libtorch as calls of |
/// |                          | the module. It calls no Trainer                                                                    |
/// | random                   | in both forms the generator begins each call with the same number of seed and micro-batch: what is  |
/// |                          | drawn changes no module's bits, nor is it changed by them                                     |
/// | errors                   | what it throws ends the step on all ranks, with the rank and the micro-batch: BatchError           |
///
/// \code
/// // given: const reef::torch::Tensors& images
/// const reef::torch::NextBatch next = [&](std::uint64_t micro_batch, at::Generator& random) {
///   const at::Tensor& clean = images[micro_batch % images.size()];
///   return reef::torch::Tensors{clean + 0.1 * at::randn(clean.sizes(), random), clean};
/// };
/// \endcode
class NextBatch {
public:
  template <class F>
    requires(!std::same_as<F, NextBatch> && std::copy_constructible<F> && (std::is_invocable_r_v<Tensors, F&, std::uint64_t> ||
                                             std::is_invocable_r_v<Tensors, F&, std::uint64_t, at::Generator&>))
  NextBatch(F function)  // NOLINT(google-explicit-constructor): step(function)
      : call_([function = std::move(function)](std::uint64_t micro_batch, std::uint64_t seed, at::Device device) mutable -> Tensors {
          if constexpr (std::is_invocable_r_v<Tensors, F&, std::uint64_t, at::Generator&>) {
            at::Generator random = at::make_generator<at::CPUGeneratorImpl>(seed);
            return function(micro_batch, random);
          } else {
            const detail::DefaultGenerator random(seed, device);
            return function(micro_batch);
          }
        }) {}

  /// Calls the function with random numbers of this seed; the default generators are those of the host and of this
  /// device.
  [[nodiscard]] Tensors operator()(std::uint64_t micro_batch, std::uint64_t seed, at::Device device) const {
    return call_(micro_batch, seed, device);
  }

private:
  std::function<Tensors(std::uint64_t, std::uint64_t, at::Device)> call_;
};

}  // namespace torch
}  // namespace v0
}  // namespace reef
