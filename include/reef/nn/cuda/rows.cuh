#pragma once

#include <reef/device/cuda.cuh>
#include <reef/nn/cuda/rows/attention.cuh>
#include <reef/nn/cuda/rows/norms.cuh>
#include <reef/nn/cuda/rows/positions.cuh>
#include <reef/nn/cuda/rows/product.cuh>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The arithmetic of rows on CUDA; nn/row_kernels.hpp describes the members.
///
/// | products | of the packed bytes of the host, which the kernel decodes tile by tile: in fp32 and bf16 the bits  |
/// |          | of the host. Packing is done by the host's cores                                                  |
/// | sums     | norms and low-rank updates have the host's order; attention sums parts of 512 positions, and joins   |
/// |          | these                                                                                              |
/// | cost     | a chain of K fma, of 4 cycles each, is the least time of a product, however few bits weights have   |
template <>
struct RowKernels<device::Cuda>
    : cuda::RowsProduct, cuda::RowsNorms, cuda::RowsAttention, cuda::RowsPositions {};

}  // namespace nn
}  // namespace v0
}  // namespace reef
