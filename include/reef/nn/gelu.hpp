#pragma once

#include <string_view>

#include <reef/core/element.hpp>
#include <reef/nn/detail/activation.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The Gaussian error linear unit in GPT-2's form.
///
///     out = in / 2 (1 + tanh(sqrt(2 / pi) (in + 0.044715 in^3)))
///
/// | shape  | in, out: any shape                                     |
/// | memory | the input's gradient uses the output gradient's memory |
///
/// Source: Hendrycks and Gimpel, Gaussian error linear units, arXiv 1606.08415.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int out = g.add("act", nn::Gelu{}, {x})[0];
/// \endcode
struct Gelu : detail::Activation<Gelu> {
  static constexpr std::string_view kind = "Gelu";
  /// The operations per element of the polynomials around one tanh.
  static constexpr double forward_flops = 8;
  static constexpr double backward_flops = 16;

  template <class Device, real T>
  static constexpr auto run_forward = &Kernels<Device>::template gelu_forward<T>;
  template <class Device, real T>
  static constexpr auto run_backward = &Kernels<Device>::template gelu_backward<T>;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
