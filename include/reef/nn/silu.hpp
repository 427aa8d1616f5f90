#pragma once

#include <string_view>

#include <reef/core/element.hpp>
#include <reef/nn/detail/activation.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The sigmoid linear unit (SiLU, swish), an activation function.
///
///     out = in / (1 + exp(-in))
///
/// | shape  | in, out: any shape                                     |
/// | memory | the input's gradient uses the output gradient's memory |
///
/// Source: Hendrycks and Gimpel, Gaussian error linear units, arXiv 1606.08415.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int out = g.add("act", nn::Silu{}, {x})[0];
/// \endcode
struct Silu : detail::Activation<Silu> {
  static constexpr std::string_view kind = "Silu";
  static constexpr double forward_flops = 4;
  static constexpr double backward_flops = 8;

  template <class Device, real T>
  static constexpr auto run_forward = &Kernels<Device>::template silu_forward<T>;
  template <class Device, real T>
  static constexpr auto run_backward = &Kernels<Device>::template silu_backward<T>;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
