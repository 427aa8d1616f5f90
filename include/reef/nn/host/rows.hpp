#pragma once

#include <reef/device/host.hpp>
#include <reef/nn/host/rows/attention.hpp>
#include <reef/nn/host/rows/low_rank.hpp>
#include <reef/nn/host/rows/norms.hpp>
#include <reef/nn/host/rows/positions.hpp>
#include <reef/nn/host/rows/product.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The kernels for rows (single tokens of sequences) on the host's cores: they give the same bits for any number of
/// threads, and on any instruction set that has FMA, since each sum has one order.
///
/// \code
/// // given: device::Host::Lane& lane, float* out, const float* in, const void* packed, void* workspace
/// nn::RowKernels<device::Host>::rows_product<float>(lane, out, in, packed, nullptr, 4, 768, 3072,
///                                                   graph::WeightForm::as_given, workspace);
/// \endcode
template <>
struct RowKernels<device::Host>
    : host::RowsProduct, host::RowsLowRank, host::RowsNorms, host::RowsAttention, host::RowsPositions {};

}  // namespace nn
}  // namespace v0
}  // namespace reef
