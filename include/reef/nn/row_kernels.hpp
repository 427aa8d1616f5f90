#pragma once

#include <reef/graph/rows.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The arithmetic of operators that run by rows (single tokens of sequences), one specialisation per device:
/// RowKernels<device::Host> is in nn/host/rows.hpp, RowKernels<device::Cuda> in nn/cuda/rows.cuh. All members are
/// static; the first argument of each is a lane (device queue), on whose thread the member is called.
///
///     a row's results depend on its own operands, its position and the states before it: not on the other rows
///
/// | shape | R rows, K in, N out channels; H heads of queries, G of keys and values, D numbers each; C channels |
/// | form  | graph::WeightForm of packed matrices: a product uses the numbers that the matrix decodes to        |
/// | table | `rows` (R) and `pages` of their sequences; `offset`: that of an operator's states in a page        |
/// | space | `workspace`: as many bytes as the function ..._workspace says, aligned to 64                       |
///
/// Each member, and below it the numbers that it computes:
///
///     packed_bytes<T>(K, N, form, outliers)
///         the bytes of a packed matrix; `outliers` (0): the number of inputs of an int8 matrix that are stored as
///         given
///     pack<T>(lane, packed, w, K, N, tw, form, outliers, magnitudes)
///         packed from w, (K,N) or, tw = yes, (N,K); outliers are the inputs that stand out most in w, or those with
///         the largest of K magnitudes, if these are given
///     rows_product<T>(lane, out, in, packed, bias, R, K, N, form, workspace)
///         out (R,N) = in (R,K) w + bias: each element one chain of fma over k ascending, which begins at the bias, or
///         0; outliers are 0 in this chain and follow behind it; bias may be null;
///         rows_product_workspace<T>(R, K, threads, outliers)
///     rows_low_rank<T>(lane, out, in, a, b, R, K, N, rank, scale, workspace)
///         out (R,N) += scale in a^T b^T, of a (rank,K) and b (N,rank); rows_low_rank_workspace<T>(R, rank, threads)
///     rows_layer_norm<T>(lane, out, in, weight, bias, R, C, epsilon)
///         of rows of C; as Kernels::layer_norm_forward
///     rows_rms_norm<T>(lane, out, in, weight, R, C, epsilon)
///         of rows of C; as Kernels::rms_norm_forward
///     rows_attention<T>(lane, out, q, k, v, ld_q, ld_kv, rows, pages, offset, H, G, D, window, alibi, options,
///         workspace)
///         stores keys and values of the rows in their pages, in the form options.states; out (R, H D) = attention of
///         each row over the positions of its sequence up to its own, the last `window` if that is not 0, scale
///         1/sqrt(D); rows of q are ld_q apart, of k and v ld_kv; rows_attention_state<T>(G, D, form) bytes a position,
///         options.positions: the most of a sequence; rows_attention_workspace<T>(R, H, D, positions, threads)
///     rows_rotary<T>(lane, out, in, rows, H, D, turned, frequencies, workspace)
///         turns pairs (i, i + turned/2) of each head by the angle position * f(i), its other columns stay; out may be
///         in; rows_rotary_workspace<T>(R, turned)
///     rows_prefix<T>(lane, out, vectors, wpe, rows, C, P)
///         out (R,C): rows of positions p < P are vectors[p] + wpe[p], the others are left; wpe may be null
///     rows_added_prefix<T>(lane, out, in, vectors, rows, C, P)
///         out (R,C) = in + vectors[p] in rows of positions p < P, in elsewhere; out may be in
///     rows_vectors<T>(lane, out, tokens, packed, wpe, rows, C, V, positions, form)
///         out (R,C) = table[token] + wpe[position], of a table (V,C) packed as pack<T>(lane, packed, table, C, V, yes,
///         form); wpe may be null; DecodeError for a token or position outside
template <class Device>
struct RowKernels {
  static_assert(sizeof(Device) == 0,
                "reef::nn: this device has no kernels for rows.\n"
                "  fix: #include <reef/nn/host/rows.hpp> for device::Host, or, in a .cu file, "
                "<reef/nn/cuda/rows.cuh> for device::Cuda.");
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
