#pragma once

#include <string_view>

#include <reef/core/element.hpp>
#include <reef/nn/detail/activation.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The Gaussian error linear unit, computed with the error function, as in BERT and GPT-NeoX.
///
///     out = in / 2 (1 + erf(in / sqrt(2)))
///
/// | shape  | in, out: any shape                                                              |
/// | memory | the input's gradient uses the output gradient's memory                          |
/// | bits   | in fp32 and bf16 they depend on the instruction set, on no mathematical library |
///
/// Source: Hendrycks and Gimpel, Gaussian error linear units, arXiv 1606.08415.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int out = g.add("mlp.act", nn::ExactGelu{}, {x})[0];
/// \endcode
struct ExactGelu : detail::Activation<ExactGelu> {
  static constexpr std::string_view kind = "ExactGelu";
  /// The operations per element of the polynomials on both sides of |x| / sqrt(2) = 475/512.
  static constexpr double forward_flops = 20;
  static constexpr double backward_flops = 30;

  template <class Device, real T>
  static constexpr auto run_forward = &Kernels<Device>::template exact_gelu_forward<T>;
  template <class Device, real T>
  static constexpr auto run_backward = &Kernels<Device>::template exact_gelu_backward<T>;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
