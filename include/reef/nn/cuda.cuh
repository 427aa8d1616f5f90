#pragma once

#include <reef/core/element.hpp>
#include <reef/device/cuda.cuh>
#include <reef/nn/cuda/attention.cuh>
#include <reef/nn/cuda/cross_entropy.cuh>
#include <reef/nn/cuda/elementwise.cuh>
#include <reef/nn/cuda/embedding.cuh>
#include <reef/nn/cuda/exact_gelu.cuh>
#include <reef/nn/cuda/gated.cuh>
#include <reef/nn/cuda/gemm.cuh>
#include <reef/nn/cuda/layer_norm.cuh>
#include <reef/nn/cuda/linear.cuh>
#include <reef/nn/cuda/mean_squared_error.cuh>
#include <reef/nn/cuda/rms_norm.cuh>
#include <reef/nn/cuda/rotary.cuh>
#include <reef/nn/cuda/split_heads.cuh>
#include <reef/nn/cuda/token_embedding.cuh>
#include <reef/nn/detail/gpt_graph.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The operators' arithmetic on CUDA; nn/kernels.hpp describes the members.
///
/// | products | cuBLASLt in full fp32 or fp64, no TF32, no atomics in split sums; bf16 on tensor     |
/// |          | cores, summed in fp32                                                                |
/// | bf16     | attention on tensor cores from sm_80 on, with weights rounded before they are        |
/// |          | multiplied; on sm_75 in fp32                                                         |
/// | vectors  | 16 bytes at once, if the addresses of arrays and of their rows are multiples of 16   |
/// | bits     | the same from run to run on one model of device and one version of cuBLASLt          |
/// | space    | small partial sums use the lane's own workspace of 32 MiB                            |
/// | angles   | each call of rotary() computes them, a table (T, D) of one head, in its workspace     |
/// | errors   | CudaError; ShapeError for heads of more than 128 channels. Bad tokens and targets    |
/// |          | give NaNs, since a kernel cannot throw                                               |
template <>
struct Kernels<device::Cuda> : cuda::GemmKernels,
                               cuda::LinearKernels,
                               cuda::ElementwiseKernels,
                               cuda::LayerNormKernels,
                               cuda::AttentionKernels,
                               cuda::EmbeddingKernels,
                               cuda::CrossEntropyKernels,
                               cuda::RmsNormKernels,
                               cuda::RotaryKernels,
                               cuda::GatedKernels,
                               cuda::ExactGeluKernels,
                               cuda::SplitHeadsKernels,
                               cuda::TokenEmbeddingKernels,
                               cuda::MeanSquaredErrorKernels {};

}  // namespace nn
}  // namespace v0
}  // namespace reef
