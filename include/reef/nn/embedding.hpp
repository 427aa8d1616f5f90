#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include <reef/core/text.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/detail/packed_table.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// An operator that adds a token's vector and its position's vector (learned embeddings).
///
///     out[b, t] = wte[tokens[b, t]] + wpe[t]
///
/// | shape      | tokens: (B, T) int32 in [0, V); out: (B, T, C); wte: (V, C); wpe: (positions, C) |
/// | parameters | both normal of deviation 0.02; both decay                                        |
/// | errors     | DecodeError for a token outside [0, V), on the host; NaN in its row, on CUDA     |
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int tokens
/// const nn::Embedding embedding{.vocabulary = 50257, .positions = 1024, .channels = 768};
/// const int x = g.add("embedding", embedding, {tokens})[0];
/// \endcode
struct Embedding {
  static constexpr std::string_view kind = "Embedding";

  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;
  std::int64_t channels = 0;

  static constexpr auto attributes() {
    return std::tuple(graph::required_attribute("vocabulary", &Embedding::vocabulary, "V, tokens that have a vector"),
                      graph::required_attribute("positions", &Embedding::positions, "that have a vector, T or more"),
                      graph::required_attribute("channels", &Embedding::channels, "C, the length of a vector"));
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    call.expect_positive("vocabulary", vocabulary);
    call.expect_positive("positions", positions);
    call.expect_positive("channels", channels);
    const graph::TensorSpec& tokens = call.inputs[0];
    call.expect(0,
                tokens.shape.rank() == 2 && tokens.element == Element::int32 &&
                    tokens.shape[1] <= positions,
                concat("(B, T) int32 with T at most ", positions));
    const std::int64_t B = tokens.shape[0];
    const std::int64_t T_ = tokens.shape[1];
    graph::Signature result;
    result.outputs = {call.tensor({B, T_, channels})};
    result.parameters = {{"wte.weight", {vocabulary, channels}, graph::Init::normal(0.02), true},
                         {"wpe.weight", {positions, channels}, graph::Init::normal(0.02), true}};
    result.backward_workspace =
        Kernels<Device>::template embedding_backward_workspace<T>(B, T_, channels, vocabulary);
    result.forward_flops = static_cast<double>(result.outputs[0].shape.size());
    result.backward_flops = 2.0 * result.forward_flops;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto tokens = call.integers(0);
    Kernels<Device>::template embedding_forward<T>(
        call.lane, call.output(0).data(), tokens.data(), call.parameter(0).data(),
        call.parameter(1).data(), tokens.shape()[0], tokens.shape()[1], channels, vocabulary);
  }

  /// Computes the gradients of the token and the position table. Positions that no token takes keep a zero gradient.
  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    const auto tokens = call.integers(0);
    const std::int64_t T_ = tokens.shape()[1];
    const auto d_wpe = call.parameter_gradient(1);
    if (!call.accumulate_parameters && T_ < positions) {
      call.lane.fill_zero(d_wpe.data() + T_ * channels,
                          static_cast<Bytes>((positions - T_) * channels) * sizeof(sum_t<T>));
    }
    Kernels<Device>::template embedding_backward<T>(
        call.lane, call.parameter_gradient(0).data(), d_wpe.data(), call.output_gradient(0).data(),
        tokens.data(), tokens.shape()[0], T_, channels, vocabulary, call.accumulate_parameters,
        call.workspace);
  }

  template <class Device, real T>
  [[nodiscard]] graph::RowsSignature rows_signature(const graph::RowsSignatureCall<Device, T>& call) const {
    return detail::rows_signature_of_table(call, vocabulary, channels);
  }

  template <class Device, real T>
  void prepare_rows(const graph::PrepareRowsCall<Device, T>& call) const {
    detail::pack_table(call, vocabulary, channels);
  }

  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    RowKernels<Device>::template rows_vectors<T>(call.lane, call.output(0).data(), call.integers(0).data(),
                                                 call.prepared, call.parameter(1).data(), call.rows, channels,
                                                 vocabulary, positions, call.options.weights);
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
