#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Throws OptionError unless a dropout rate is in [0, 1).
inline void check_dropout_rate(float rate) {
  if (is_finite(rate) && rate >= 0 && rate < 1) return;
  throw OptionError("reef::nn: the dropout rate is ", rate,
                    ".\n  fix: at least 0 and less than 1.");
}

/// An operator that zeroes elements at random during training, and scales the others up.
///
///     out[i] = in[i] m[i] / (1 - rate)      m[i] = 1 if draw i of sample s >= rate, else 0
///
/// | shape  | in, out: (B, ...): row b belongs to sample key.sample + b; i counts inside a sample |
/// | bits   | the dropped elements depend on seed, sample and node: not on ranks, cuts or batches |
/// | state  | none: backward draws the same numbers again                                         |
///
/// Source: Srivastava et al., Dropout, JMLR 15, 2014.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int out = g.add("drop", nn::Dropout{.rate = 0.1F}, {x})[0];
/// \endcode
struct Dropout {
  static constexpr std::string_view kind = "Dropout";
  static constexpr bool by_rows = true;

  float rate = 0.1F;

  static constexpr auto attributes() {
    return std::tuple(
        graph::optional_attribute("rate", &Dropout::rate, "the part that is dropped, at least 0 and less than 1"));
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    check_dropout_rate(rate);
    call.expect_inputs(1);
    call.expect_rows(0);
    graph::Signature result;
    result.attributes = concat("rate ", rate);
    result.outputs = {call.inputs[0]};
    result.backward_reads_inputs = false;
    result.forward_shares = {{0, 0}};
    result.gradient_shares = {{0, 0}};
    result.forward_flops = static_cast<double>(call.inputs[0].shape.size());
    result.backward_flops = result.forward_flops;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    apply<Device, T>(call.lane, call.output(0), call.input(0), call.training ? rate : 0.0F,
                     call.key, false);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0)) return;
    apply<Device, T>(call.lane, call.input_gradient(0), call.output_gradient(0), rate, call.key,
                     call.accumulates(0));
  }

private:
  template <class Device, real T>
  static void apply(typename Device::Lane& lane, TensorView<T> out, TensorView<const T> in,
                    float rate, DrawKey key, bool accumulate) {
    const std::int64_t samples = in.shape()[0];
    if (samples == 0) return;
    Kernels<Device>::template dropout<T>(lane, out.data(), in.data(), in.size() / samples, samples,
                                         rate, key, accumulate);
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
