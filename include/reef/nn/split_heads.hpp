#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include <reef/core/element.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// An operator that splits a tensor into queries, keys and values, which lie side by side in each head.
///
///     q[h], k[h], v[h] = in[3 h], in[3 h + 1], in[3 h + 2]      of D columns each, for each of H heads
///
/// | shape  | in: (..., 3 H D); q, k, v: (..., H D)                                                         |
/// | layout | that of query_key_value in BLOOM and GPT-NeoX; GPT-2's has all queries first: CausalAttention |
///
/// Source: huggingface/transformers, models/bloom/modeling_bloom.py, models/gpt_neox/modeling_gpt_neox.py.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int fused
/// const auto qkv = g.add("qkv", nn::SplitHeads{.heads = 16}, {fused});
/// const int out = g.add("attn", nn::GroupedAttention{.heads = 16, .kv_heads = 16}, {qkv[0], qkv[1], qkv[2]})[0];
/// \endcode
struct SplitHeads {
  static constexpr std::string_view kind = "SplitHeads";
  static constexpr bool by_rows = true;

  std::int64_t heads = 1;

  static constexpr auto attributes() {
    return std::tuple(
        graph::required_attribute("heads", &SplitHeads::heads, "H, of queries, and as many of keys and values"));
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    call.expect_rows(0);
    call.expect_positive("heads", heads);
    const Shape& in = call.inputs[0].shape;
    call.expect(0, heads <= in.last() && in.last() % (3 * heads) == 0,
                concat("(..., 3 H D) of ", heads, " heads"));
    const graph::TensorSpec part = call.tensor(in.with_last(in.last() / 3));
    graph::Signature result;
    result.attributes = concat("heads ", heads);
    result.outputs = {part, part, part};
    result.backward_reads_inputs = false;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    Kernels<Device>::template split_heads<T>(call.lane, call.output(0).data(), call.output(1).data(),
                                             call.output(2).data(), in.data(), in.shape().rows(), heads,
                                             in.shape().last() / (3 * heads));
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0)) return;
    const auto d_in = call.input_gradient(0);
    Kernels<Device>::template join_heads<T>(call.lane, d_in.data(), call.output_gradient(0).data(),
                                            call.output_gradient(1).data(), call.output_gradient(2).data(),
                                            d_in.shape().rows(), heads, d_in.shape().last() / (3 * heads),
                                            call.accumulates(0));
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
