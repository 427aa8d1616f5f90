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

/// An error in a function that returns batches or their weights. Its text has the rank, the micro-batch, and the text
/// of the function's exception. The outcome of the step is unknown.
class BatchError : public run::SourceError {
public:
  using SourceError::SourceError;
};

/// A function of the user's that returns a batch of the example's shapes, in one of two forms. `micro_batch`: its
/// number in the job.
///
/// | (micro_batch)            | draws from libtorch's default generator, and so runs only while no module is called   |
/// | (micro_batch, generator) | draws from the given generator, an at::Generator& of the host, and runs beside        |
/// |                          | modules: long work, such as reading files, overlaps computing. It must not call what  |
/// |                          | draws from the default generator, as dropout does, nor read a tensor of the module    |
/// |                          | that is trained                                                                       |
/// | thread                   | the function runs on another thread, during a step; calls follow one another, with as |
/// |                          | many libtorch threads as calls of the module. It must not call a Trainer              |
/// | random                   | in both forms the generator is seeded for each call by seed and micro-batch: draws    |
/// |                          | neither change the bits of modules, nor are changed by them                           |
/// | errors                   | an exception ends the step on all ranks, with the rank and the micro-batch:           |
/// |                          | BatchError                                                                            |
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
    requires(!std::same_as<F, NextBatch> && std::copy_constructible<F> &&
             (std::is_invocable_r_v<Tensors, F&, std::uint64_t> ||
              std::is_invocable_r_v<Tensors, F&, std::uint64_t, at::Generator&>))
  NextBatch(F function)  // NOLINT(google-explicit-constructor): step(function)
      : call_([function = std::move(function)](std::uint64_t micro_batch, std::uint64_t seed,
                                               at::Device device) mutable -> Tensors {
          if constexpr (std::is_invocable_r_v<Tensors, F&, std::uint64_t, at::Generator&>) {
            at::Generator random = at::make_generator<at::CPUGeneratorImpl>(seed);
            return function(micro_batch, random);
          } else {
            const detail::DefaultGenerator random(seed, device);
            return function(micro_batch);
          }
        }) {}

  /// Calls the user's function with random numbers of this seed; in the first form they come from the default
  /// generators of the host and of this device.
  [[nodiscard]] Tensors operator()(std::uint64_t micro_batch, std::uint64_t seed, at::Device device) const {
    return call_(micro_batch, seed, device);
  }

private:
  std::function<Tensors(std::uint64_t, std::uint64_t, at::Device)> call_;
};

}  // namespace torch
}  // namespace v0
}  // namespace reef
