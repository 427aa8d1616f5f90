#pragma once

#include <reef/graph/registry.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// All operators of nn/, by their kinds, for graph::from_json and to_json; add() enters your own.
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
  return all;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
