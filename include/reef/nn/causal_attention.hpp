#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include <reef/core/error.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Multi-head self-attention in which a token attends to itself and to the tokens before it.
///
///     out = softmax(q k^T / sqrt(C / H) + mask) v      for each of H heads
///
/// | shape   | qkv: (B, T, 3C), the columns are q, k, v, each H heads of C / H; out: (B, T, C)      |
/// | saved   | the log-sum-exp of each row of scores, (B, H, T): no T x T tensor is kept            |
/// | dropout | applied to the probabilities; (h, t, s) uses draw (h T + t) T + s of its sample      |
/// | cost    | forward 2 B T^2 C, backward 5 B T^2 C operations: half of T x T is masked            |
///
/// Source: Vaswani et al., arXiv 1706.03762; Dao et al., FlashAttention, arXiv 2205.14135.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int qkv
/// const int out = g.add("attn", nn::CausalAttention{.heads = 12}, {qkv})[0];
/// \endcode
struct CausalAttention {
  static constexpr std::string_view kind = "CausalAttention";

  std::int64_t heads = 1;
  float dropout = 0;

  static constexpr auto attributes() {
    return std::tuple(
        graph::required_attribute("heads", &CausalAttention::heads, "H, divides C"),
        graph::optional_attribute("dropout", &CausalAttention::dropout, "the part of probabilities that is dropped"));
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    check_dropout_rate(dropout);
    call.expect_inputs(1);
    call.expect_rows(0);
    call.expect_positive("heads", heads);
    const Shape& qkv = call.inputs[0].shape;
    call.expect(
        0, heads <= qkv.last() && qkv.rank() == 3 && qkv.last() % (3 * heads) == 0,
        concat("(B, T, 3C) with C a multiple of the ", heads, " heads"));
    const Extents e(qkv);
    graph::Signature result;
    result.attributes = concat("heads ", heads, ", dropout ", dropout);
    result.outputs = {call.tensor({e.B, e.T_, e.C})};
    result.saved = {call.sums({e.B, heads, e.T_})};
    result.forward_workspace = Kernels<Device>::template attention_forward_workspace<T>(
        e.B, e.T_, e.C, heads, call.threads);
    result.backward_workspace = Kernels<Device>::template attention_backward_workspace<T>(
        e.B, e.T_, e.C, heads, call.threads);
    result.backward_reads_outputs = true;
    result.overwrites_gradients = true;
    const auto square =
        static_cast<double>(e.B) * static_cast<double>(e.T_) * static_cast<double>(e.T_);
    result.forward_flops = 2.0 * square * static_cast<double>(e.C);
    result.backward_flops = 5.0 * square * static_cast<double>(e.C);
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto qkv = call.input(0);
    const Extents e(qkv.shape());
    Kernels<Device>::template attention_forward<T>(
        call.lane, call.output(0).data(), call.kept_sums(0).data(), qkv.data(), e.B, e.T_, e.C,
        heads, call.workspace, call.training ? dropout : 0.0F, call.key);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0)) return;
    const auto qkv = call.input(0);
    const Extents e(qkv.shape());
    Kernels<Device>::template attention_backward<T>(
        call.lane, call.input_gradient(0).data(), call.output_gradient(0).data(), qkv.data(),
        call.output(0).data(), call.kept_sums(0).data(), e.B, e.T_, e.C, heads, call.workspace,
        dropout, call.key);
  }

  template <class Device, real T>
  [[nodiscard]] graph::RowsSignature rows_signature(const graph::RowsSignatureCall<Device, T>& call) const {
    const std::int64_t D = call.inputs[0].shape.last() / 3 / heads;
    graph::RowsSignature result;
    result.state = RowKernels<Device>::template rows_attention_state<T>(heads, D, call.options.states);
    result.workspace =
        RowKernels<Device>::template rows_attention_workspace<T>(call.inputs[0].shape.rows(), heads, D,
                                                                      call.options.positions, call.threads);
    return result;
  }

  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    const T* const qkv = call.input(0).data();
    const Extents e(call.input(0).shape());
    RowKernels<Device>::template rows_attention<T>(call.lane, call.output(0).data(), qkv, qkv + e.C, qkv + 2 * e.C,
                                                   3 * e.C, 3 * e.C, call.rows, call.pages, call.state_offset, heads,
                                                   heads, e.C / heads, 0, false, call.options, call.workspace);
  }

private:
  struct Extents {
    explicit Extents(const Shape& qkv) : B(qkv[0]), T_(qkv[1]), C(qkv[2] / 3) {}
    std::int64_t B;
    std::int64_t T_;
    std::int64_t C;
  };
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
