#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include <reef/core/text.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Causal self-attention whose keys and values may have fewer heads than its queries, and in which a token may be
/// limited to a window: itself and the tokens just before it.
///
///     out[h] = softmax(q[h] k[g]^T / sqrt(D) + bias[h] + mask) v[g]      g = floor(h K / H), for each of H heads
///
/// | shape   | q, out: (B, T, H D); k, v: (B, T, K D), with K heads of keys and values of D columns, K from 1 to H |
/// | mask    | token t attends to the tokens (t - window, t]; window 0: to all tokens up to t                      |
/// | bias    | with `alibi`, slope * (s - t) for token t and key s; the slopes of n heads, n a power of two, are   |
/// |         | 2^(-8 i / n), i = 1, ..., n; other numbers H have those of the power of two below H, and the odd    |
/// |         | ones of its double                                                                                  |
/// | saved   | the log-sum-exp of each row of scores, (B, H, T): no T x T tensor is kept                           |
/// | dropout | applied to the probabilities; (h, t, s) uses draw (h T + t) T + s of its sample                     |
/// | cost    | 4 H D operations forward and 10 H D backward for each pair of tokens that attend to each other      |
/// | threads | a task is one head of a sample; in a backward, one head of keys and values                          |
///
/// Source: Ainslie et al., GQA, arXiv 2305.13245; Jiang et al., Mistral 7B, arXiv 2310.06825 (the window); Press et
/// al., Train short, test long, arXiv 2108.12409 (ALiBi), with BLOOM's slopes.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int q, int k, int v
/// const int out = g.add("self_attn", nn::GroupedAttention{.heads = 32, .kv_heads = 8}, {q, k, v})[0];
/// \endcode
struct GroupedAttention {
  static constexpr std::string_view kind = "GroupedAttention";

  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t window = 0;
  float dropout = 0;
  bool alibi = false;

  static constexpr auto attributes() {
    return std::tuple(
        graph::required_attribute("heads", &GroupedAttention::heads, "H, of queries"),
        graph::required_attribute("kv_heads", &GroupedAttention::kv_heads,
                                  "K, of keys and values, divides H"),
        graph::optional_attribute("window", &GroupedAttention::window,
                                  "tokens that one sees, itself included; 0: all before it"),
        graph::optional_attribute("dropout", &GroupedAttention::dropout,
                                  "the part of probabilities that is dropped"),
        graph::optional_attribute("alibi", &GroupedAttention::alibi,
                                  "whether scores fall with the distance, as BLOOM's do"));
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    check_dropout_rate(dropout);
    call.expect_inputs(3);
    call.expect_rows(0);
    call.expect_positive("heads", heads);
    call.expect_positive("kv_heads", kv_heads);
    call.expect_not_negative("window", static_cast<double>(window));
    const Shape& q = call.inputs[0].shape;
    call.expect(0, q.rank() == 3 && q.last() % heads == 0 && heads % kv_heads == 0,
                concat("(B, T, H D) of ", heads, " heads, a multiple of the ", kv_heads,
                       " of keys and values"));
    const Extents e(q, *this);
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
      call.expect(i, call.tensor({e.B, e.T_, kv_heads * e.D}));
    graph::Signature result;
    result.attributes = concat("heads ", heads, ", kv_heads ", kv_heads, ", window ", window,
                               ", dropout ", dropout);
    if (alibi) result.attributes += ", alibi";
    result.outputs = {call.inputs[0]};
    result.saved = {call.sums({e.B, heads, e.T_})};
    result.forward_workspace = Kernels<Device>::template grouped_attention_forward_workspace<T>(
        e.B, e.T_, heads, e.D, e.window, call.threads);
    result.backward_workspace = Kernels<Device>::template grouped_attention_backward_workspace<T>(
        e.B, e.T_, heads, e.D, e.window, call.threads);
    result.backward_reads_outputs = true;
    result.overwrites_gradients = true;
    result.writes_all_gradients = true;
    const auto reach = static_cast<double>(e.window == 0 ? e.T_ : e.window);
    const double pairs = static_cast<double>(e.B) * reach * (static_cast<double>(e.T_) - reach / 2);
    result.forward_flops = 4.0 * pairs * static_cast<double>(q.last());
    result.backward_flops = 10.0 * pairs * static_cast<double>(q.last());
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const Extents e(call.input(0).shape(), *this);
    Kernels<Device>::template grouped_attention_forward<T>(
        call.lane, call.output(0).data(), call.kept_sums(0).data(), call.input(0).data(),
        call.input(1).data(), call.input(2).data(), e.B, e.T_, heads, kv_heads, e.D, e.window, alibi,
        call.workspace, call.training ? dropout : 0.0F, call.key);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    const Extents e(call.input(0).shape(), *this);
    Kernels<Device>::template grouped_attention_backward<T>(
        call.lane, call.input_gradient(0).data(), call.input_gradient(1).data(),
        call.input_gradient(2).data(), call.output_gradient(0).data(), call.input(0).data(),
        call.input(1).data(), call.input(2).data(), call.output(0).data(), call.kept_sums(0).data(),
        e.B, e.T_, heads, kv_heads, e.D, e.window, alibi, call.workspace, dropout, call.key);
  }

  template <class Device, real T>
  [[nodiscard]] graph::RowsSignature rows_signature(const graph::RowsSignatureCall<Device, T>& call) const {
    const std::int64_t D = call.inputs[0].shape.last() / heads;
    graph::RowsSignature result;
    result.state = RowKernels<Device>::template rows_attention_state<T>(kv_heads, D, call.options.states);
    result.workspace =
        RowKernels<Device>::template rows_attention_workspace<T>(call.inputs[0].shape.rows(), heads, D,
                                                                      call.options.positions, call.threads);
    return result;
  }

  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    const std::int64_t D = call.input(0).shape().last() / heads;
    RowKernels<Device>::template rows_attention<T>(
        call.lane, call.output(0).data(), call.input(0).data(), call.input(1).data(), call.input(2).data(), heads * D,
        kv_heads * D, call.rows, call.pages, call.state_offset, heads, kv_heads, D, window, alibi,
        call.options, call.workspace);
  }

private:
  struct Extents {
    Extents(const Shape& q, const GroupedAttention& op)
        : B(q[0]), T_(q[1]), D(q[2] / op.heads), window(op.window >= T_ ? 0 : op.window) {}
    std::int64_t B;
    std::int64_t T_;
    std::int64_t D;
    std::int64_t window;  // the window; 0 if it hides no token
  };
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
