#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>
#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// An operator that turns pairs of each head's numbers by angles that grow with the position (rotary positions).
///
///     out[i]       = in[i] cos(t f) - in[i + R/2] sin(t f)      i in [0, R/2), f = f(i)
///     out[i + R/2] = in[i + R/2] cos(t f) + in[i] sin(t f)      out[i] = in[i] for i >= R
///
/// | shape  | in, out: (B, T, H D), H heads of `head_size` D                          |
/// | R      | `turned`, even, or all D columns of a head                              |
/// | pairs  | columns i and i + R/2, as in Hugging Face's files; Meta's pair i, i + 1 |
/// | f      | RotaryFrequencies: linear scaling, or Llama 3's if `original` is set    |
/// | memory | out uses in's memory, and in's gradient that of out's gradient          |
/// | errors | ShapeError for an odd R; OptionError for invalid frequencies            |
///
/// Source: Su et al., RoFormer, arXiv 2104.09864.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int queries
/// const int turned = g.add("q_rotary", nn::Rotary{.head_size = 64, .theta = 500000}, {queries})[0];
/// \endcode
struct Rotary {
  static constexpr std::string_view kind = "Rotary";

  std::int64_t head_size = 0;  ///< number of columns of a head, D
  double theta = 10000;
  double factor = 1;
  std::int64_t original = 0;
  double low = 1;
  double high = 4;
  std::int64_t turned = 0;  ///< number R of columns of a head that are turned; 0: all

  static constexpr auto attributes() {
    return std::tuple(
        graph::required_attribute("head_size", &Rotary::head_size,
                                  "D, divides the last extent, even where `turned` is 0"),
        graph::optional_attribute("theta", &Rotary::theta, "the base of the frequencies"),
        graph::optional_attribute("factor", &Rotary::factor, "what positions are stretched by"),
        graph::optional_attribute(
            "original", &Rotary::original,
            "positions that were trained with, for Llama 3's scaling; 0: linear scaling"),
        graph::optional_attribute("low", &Rotary::low,
                                  "of Llama 3's scaling: pairs of less turns are stretched"),
        graph::optional_attribute("high", &Rotary::high,
                                  "of Llama 3's scaling: pairs of more turns are not"),
        graph::optional_attribute("turned", &Rotary::turned,
                                  "columns of a head that are turned, even, the first; 0: all"));
  }

  /// Returns the number R of columns of a head that rotary positions turn.
  [[nodiscard]] std::int64_t turned_columns() const { return turned == 0 ? head_size : turned; }
  [[nodiscard]] RotaryFrequencies frequencies() const {
    return {theta, factor, original, low, high};
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    require_frequencies();
    call.expect_inputs(1);
    call.expect_rows(0);
    call.expect_positive("head_size", head_size);
    const Shape& in = call.inputs[0].shape;
    const std::int64_t R = turned_columns();
    call.expect(0, in.rank() == 3 && in.last() % head_size == 0 && R % 2 == 0 && R >= 2 && R <= head_size,
                concat("(B, T, H D) with D = ", head_size, turned == 0 ? "" : concat(", of which ", R, " columns turn"),
                       R % 2 == 0 ? "" : ", which must be even"));
    graph::Signature result;
    result.attributes = concat("head_size ", head_size, ", theta ", theta, ", factor ", factor);
    if (original != 0)
      result.attributes += concat(", original ", original, ", low ", low, ", high ", high);
    if (turned != 0) result.attributes += concat(", turned ", turned);
    result.outputs = {call.inputs[0]};
    result.forward_workspace =
        Kernels<Device>::template rotary_workspace<T>(in[1], R, call.threads);
    result.backward_workspace = result.forward_workspace;
    result.backward_reads_inputs = false;
    result.forward_shares = {{0, 0}};
    result.gradient_shares = {{0, 0}};
    result.forward_flops = 3.0 * static_cast<double>(in.size());
    result.backward_flops = result.forward_flops;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    turn<Device, T>(call.lane, call.output(0), call.input(0), false, false, call.workspace);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0)) return;
    turn<Device, T>(call.lane, call.input_gradient(0), call.output_gradient(0), true,
                    call.accumulates(0), call.workspace);
  }

  template <class Device, real T>
  [[nodiscard]] graph::RowsSignature rows_signature(const graph::RowsSignatureCall<Device, T>& call) const {
    graph::RowsSignature result;
    result.workspace =
        RowKernels<Device>::template rows_rotary_workspace<T>(call.inputs[0].shape.rows(), turned_columns());
    return result;
  }

  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    RowKernels<Device>::template rows_rotary<T>(call.lane, call.output(0).data(), call.input(0).data(), call.rows,
                                                call.input(0).shape().last() / head_size, head_size,
                                                turned_columns(), frequencies(), call.workspace);
  }

private:
  void require_frequencies() const {
    const auto require_that = [](bool fits, const char* member, auto value, const char* range) {
      if (fits) return;
      throw OptionError("reef::nn::Rotary: ", member, " is ", value, ".\n  fix: ", range, ".");
    };
    require_that(is_finite(theta) && theta > 0, "theta", theta, "above 0");
    require_that(is_finite(factor) && factor > 0, "factor", factor, "above 0; 1 stretches nothing");
    require_that(original >= 0, "original", original, "0, or the positions that were trained with");
    require_that(is_finite(low) && low > 0, "low", low, "above 0");
    require_that(is_finite(high) && high > low, "high", high, "above low");
  }

  template <class Device, real T>
  void turn(typename Device::Lane& lane, TensorView<T> out, TensorView<const T> in, bool back,
            bool accumulate, void* workspace) const {
    const Shape& shape = in.shape();
    Kernels<Device>::template rotary<T>(lane, out.data(), in.data(), shape[0], shape[1],
                                        shape[2] / head_size, head_size, turned_columns(),
                                        frequencies(), back, accumulate, workspace);
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
