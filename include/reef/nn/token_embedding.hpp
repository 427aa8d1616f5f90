#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/detail/packed_table.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The embedding of tokens without positions, which other operators add, such as nn::Rotary.
///
///     out[b, t] = weight[tokens[b, t]]
///
/// | shape      | tokens: (B, T) int32 in [0, V); out: (B, T, C); weight: (V, C)                   |
/// | parameters | weight: normal of deviation 0.02; decays                                         |
/// | errors     | DecodeError for a token outside [0, V)                                           |
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int tokens
/// const int x = g.add("embed_tokens", nn::TokenEmbedding{.vocabulary = 32000, .channels = 4096}, {tokens})[0];
/// \endcode
struct TokenEmbedding {
  static constexpr std::string_view kind = "TokenEmbedding";

  std::int64_t vocabulary = 0;
  std::int64_t channels = 0;

  static constexpr auto attributes() {
    return std::tuple(graph::required_attribute("vocabulary", &TokenEmbedding::vocabulary,
                                                "V, tokens that have a vector"),
                      graph::required_attribute("channels", &TokenEmbedding::channels,
                                                "C, the length of a vector"));
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    call.expect_positive("vocabulary", vocabulary);
    call.expect_positive("channels", channels);
    const graph::TensorSpec& tokens = call.inputs[0];
    call.expect(0, tokens.shape.rank() == 2 && tokens.element == Element::int32, "(B, T) int32");
    graph::Signature result;
    result.outputs = {call.tensor({tokens.shape[0], tokens.shape[1], channels})};
    result.parameters = {{"weight", {vocabulary, channels}, graph::Init::normal(0.02), true}};
    result.backward_workspace = Kernels<Device>::template token_embedding_backward_workspace<T>(
        tokens.shape.size(), channels, vocabulary);
    result.backward_flops = static_cast<double>(result.outputs[0].shape.size());
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto tokens = call.integers(0);
    Kernels<Device>::template token_embedding_forward<T>(call.lane, call.output(0).data(),
                                                         tokens.data(), call.parameter(0).data(),
                                                         tokens.size(), channels, vocabulary);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    const auto tokens = call.integers(0);
    Kernels<Device>::template token_embedding_backward<T>(
        call.lane, call.parameter_gradient(0).data(), call.output_gradient(0).data(), tokens.data(),
        tokens.size(), channels, vocabulary, call.accumulate_parameters, call.workspace);
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
                                                 call.prepared, static_cast<const T*>(nullptr), call.rows, channels,
                                                 vocabulary, 0, call.options.weights);
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
