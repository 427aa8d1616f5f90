#pragma once

#include <string_view>

#include <reef/core/element.hpp>
#include <reef/nn/detail/activation.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The rectified linear unit: replaces numbers below 0 by 0. The gradient of numbers up to 0 is 0.
///
///     out = max(in, 0)
///
/// | shape  | in, out: any shape                                         |
/// | memory | the input's gradient uses the output gradient's memory     |
///
/// Source: Nair and Hinton, Rectified linear units improve restricted Boltzmann machines, 2010.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int out = g.add("act", nn::Relu{}, {x})[0];
/// \endcode
struct Relu : detail::Activation<Relu> {
  static constexpr std::string_view kind = "Relu";
  static constexpr double forward_flops = 1;
  static constexpr double backward_flops = 1;

  template <class Device, real T>
  static constexpr auto run_forward = &Kernels<Device>::template relu_forward<T>;
  template <class Device, real T>
  static constexpr auto run_backward = &Kernels<Device>::template relu_backward<T>;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
