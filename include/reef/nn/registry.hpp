#pragma once

#include <reef/graph/registry.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/exact_gelu.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/mean_squared_error.hpp>
#include <reef/nn/relu.hpp>
#include <reef/nn/rms_norm.hpp>
#include <reef/nn/rotary.hpp>
#include <reef/nn/silu.hpp>
#include <reef/nn/split_heads.hpp>
#include <reef/nn/swiglu.hpp>
#include <reef/nn/token_embedding.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Returns a registry of all operators of nn/ that a device has, for graph::from_json and to_json; add others with
/// its add().
///
/// \code
/// const auto registry = nn::registry<device::Host, float>();
/// const auto model = graph::from_json(io::read_json("gpt.json"), "gpt.json", registry);
/// \endcode
template <class Device, real T>
graph::Registry<Device, T> registry() {
  graph::Registry<Device, T> all;
  all.template add<Add>();
  all.template add<CausalAttention>();
  all.template add<CrossEntropy>();
  all.template add<Dropout>();
  all.template add<Embedding>();
  all.template add<Gelu>();
  all.template add<LayerNorm>();
  all.template add<Linear>();
  if constexpr (requires { &Kernels<Device>::template rms_norm_forward<T>; }) {  // else: none of these kernels
    all.template add<GroupedAttention>();
    all.template add<MeanSquaredError>();
    all.template add<Relu>();
    all.template add<RmsNorm>();
    all.template add<Rotary>();
    all.template add<Silu>();
    all.template add<SwiGlu>();
    all.template add<TokenEmbedding>();
  }
  if constexpr (requires { &Kernels<Device>::template exact_gelu_forward<T>; }) {
    all.template add<ExactGelu>();
    all.template add<SplitHeads>();
  }
  return all;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
