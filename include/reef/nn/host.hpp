#pragma once

#include <reef/device/host.hpp>
#include <reef/nn/host/attention.hpp>
#include <reef/nn/host/cross_entropy.hpp>
#include <reef/nn/host/dropout.hpp>
#include <reef/nn/host/elementwise.hpp>
#include <reef/nn/host/embedding.hpp>
#include <reef/nn/host/exact_gelu.hpp>
#include <reef/nn/host/gated.hpp>
#include <reef/nn/host/gemm.hpp>
#include <reef/nn/host/layer_norm.hpp>
#include <reef/nn/host/linear.hpp>
#include <reef/nn/host/mean_squared_error.hpp>
#include <reef/nn/host/prefix.hpp>
#include <reef/nn/host/products.hpp>
#include <reef/nn/host/rms_norm.hpp>
#include <reef/nn/host/rotary.hpp>
#include <reef/nn/host/split_heads.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The operators' arithmetic on the host's cores: matrix products by oneDNN or CBLAS on one thread
/// per tile, all else by vector code that is chosen at run time (device/simd.hpp).
///
/// \code
/// // given: device::Host::Lane& lane, const std::vector<float>& in, std::vector<float>& out
/// lane.submit([&](device::Host::Lane& own) {
///   nn::Kernels<device::Host>::gelu_forward<float>(own, out.data(), in.data(), std::ssize(out));
/// });
/// lane.synchronize();
/// \endcode
template <>
struct Kernels<device::Host> : host::Gemm,
                               host::Linear,
                               host::Elementwise,
                               host::ExactGelu,
                               host::Gated,
                               host::Dropout,
                               host::LayerNorm,
                               host::RmsNorm,
                               host::Rotary,
                               host::SplitHeads,
                               host::Embedding,
                               host::Prefix,
                               host::CrossEntropy,
                               host::MeanSquaredError,
                               host::Attention {};

}  // namespace nn
}  // namespace v0
}  // namespace reef
