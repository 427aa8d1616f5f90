#pragma once

#include <cstdint>

#include <reef/graph/rows.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// What an operator whose first parameter is a table of V vectors of C numbers states to run by rows: the table lies
/// packed, as the head that it may be too has it.
template <class Device, real T>
graph::RowsSignature rows_signature_of_table(const graph::RowsSignatureCall<Device, T>& call, std::int64_t V,
                                             std::int64_t C) {
  graph::RowsSignature result;
  result.prepared =
      RowKernels<Device>::template packed_bytes<T>(C, V, call.options.weights, call.options.outliers_of(C));
  result.layout = "transposed";
  return result;
}

/// Packs that table.
template <class Device, real T>
void pack_table(const graph::PrepareRowsCall<Device, T>& call, std::int64_t V, std::int64_t C) {
  RowKernels<Device>::template pack<T>(call.lane, call.prepared, call.values.data(), C, V, Transpose::yes,
                                       call.options.weights, call.options.outliers_of(C), call.magnitudes);
}

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
