#pragma once

#include <cstdint>

#include <reef/core/random.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The way in which a matrix is read: as it is stored in memory, or as its transpose.
enum class Transpose : std::uint8_t { no, yes };

/// The arithmetic of the operators, one specialisation per device: Kernels<device::Host> is in nn/host.hpp,
/// Kernels<device::Cuda> in nn/cuda.cuh. All members are static; the first argument of each is a lane (device queue),
/// on whose thread the member is called. T is float, double or Bfloat16; losses, statistics and gradients of parameters
/// are sum_t<T>, the type in which everything is computed.
///
/// | shape  | row-major and contiguous; R rows, K in, N out channels; B batch, T_ sequence, C |
/// |        | channels, H heads, V vocabulary                                                 |
/// | target | `accumulate` adds the result to the target, otherwise the target is overwritten |
/// | order  | every sum is folded in an order that depends on shapes alone, not on threads or |
/// |        | timing: equal inputs give equal bits on one device and instruction set          |
/// | alias  | outputs must not overlap inputs, unless the list below allows it                |
/// | space  | `workspace`: as many bytes of device memory as the function ..._workspace says, |
/// |        | aligned to 64                                                                   |
///
/// Each member, and below it the numbers that it computes:
///
///     gemm(lane, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, workspace)
///         c (m,n) = alpha op(a) (m,k) op(b) (k,n) + beta c; beta = 0 does not read c; a and b are T, c is T or
///         sum_t<T>, alpha and beta sum_t<T>; gemm_workspace<T>(ta, tb, m, n, k, threads)
///     linear_forward(lane, out, in, w, bias, R, K, N, tw, workspace)
///         out (R,N) = in (R,K) w + bias; bias may be null; tw = no: w is (K,N), yes: w is (N,K);
///         linear_forward_workspace<T>(R, K, N, tw, threads)
///     linear_backward_input(lane, d_in, d_out, w, R, K, N, tw, accumulate, workspace)
///         d_in (R,K); linear_backward_workspace<T>(R, K, N, tw, threads)
///     linear_backward_weight(lane, d_w, d_bias, in, d_out, R, K, N, tw, accumulate, workspace)
///         d_w as w, d_bias (N) or null; linear_backward_workspace<T>(R, K, N, tw, threads)
///     gelu_forward(lane, out, in, n)
///         x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
///     gelu_backward(lane, d_in, d_out, in, n, accumulate)
///         d_in = d_out gelu'(in); d_in may be d_out
///     layer_norm_forward(lane, out, mean, rstd, in, weight, bias, R, C, epsilon)
///         out (R,C), mean (R), rstd (R) = 1/sqrt(variance + epsilon)
///     layer_norm_backward(lane, d_in, d_weight, d_bias, d_out, in, weight, mean, rstd, R, C, accumulate_input,
///         accumulate_parameters, workspace)
///         d_in, d_weight, d_bias; d_in may be d_out; layer_norm_backward_workspace<T>(R, C)
///     attention_forward(lane, out, lse, qkv, B, T_, C, H, workspace, rate, key)
///         causal, scale 1/sqrt(C/H); qkv (B,T,3C) = q, k, v side by side; out (B,T,C); lse (B,H,T) log-sum-exp of the
///         scaled scores; attention_forward_workspace<T>(B, T_, C, H, threads)
///     attention_backward(lane, d_qkv, d_out, qkv, out, lse, B, T_, C, H, workspace, rate, key)
///         overwrites d_qkv; attention_backward_workspace<T>(B, T_, C, H, threads)
///     embedding_forward(lane, out, tokens, wte, wpe, B, T_, C, V)
///         out (B,T,C) = wte[token] + wpe[t]; Host: DecodeError for a token outside [0, V); Cuda: NaNs
///     embedding_backward(lane, d_wte, d_wpe, d_out, tokens, B, T_, C, V, accumulate, workspace)
///         d_wte, d_wpe; rows of tokens that do not occur are zeroed unless accumulate;
///         embedding_backward_workspace<T>(B, T_, C, V)
///     add_forward(lane, out, a, b, n)
///         out = a + b; out may be a or b
///     copy_or_add(lane, out, in, n, accumulate)
///         out = in or out += in; out == in without accumulate does nothing
///     dropout(lane, out, in, per_sample, samples, rate, key, accumulate)
///         out = in / (1 - rate) where uniform(key, i) >= rate, else 0; i within the sample, sample s by key.sample +
///         s; forward and backward; out may be in
///     cross_entropy_forward(lane, loss, lse, logits, targets, R, V, workspace)
///         loss () = mean over rows with target >= 0 of lse - logit; lse (R); 0 without such rows; Host: DecodeError
///         for a target outside [-1, V); cross_entropy_forward_workspace<T>(R, V)
///     cross_entropy_backward(lane, d_logits, d_loss, logits, lse, targets, R, V)
///         d_logits (R,V), zero where the target is -1; d_loss () in device memory; d_logits may be logits
///     rms_norm_forward(lane, out, rstd, in, weight, R, C, epsilon)
///         out (R,C) = in rstd weight, rstd (R) = 1/sqrt(mean of squares + epsilon)
///     rms_norm_backward(lane, d_in, d_weight, d_out, in, weight, rstd, R, C, accumulate_input,
///         accumulate_parameters, workspace)
///         d_in, d_weight; d_in may be d_out; rms_norm_backward_workspace<T>(R, C)
///     rotary(lane, out, in, B, T_, H, D, turned, frequencies, back, accumulate, workspace)
///         turns pairs (i, i + turned/2) of each head at position t by the angle t f(i), or by -t f(i) if back; its
///         columns from `turned` on stay; out may be in; rotary_workspace<T>(T_, turned, threads)
///     silu_forward, silu_backward, relu_forward, relu_backward
///         arguments as of gelu; silu: in / (1 + e^-in); relu: in if it is above 0, else 0
///     exact_gelu_forward, exact_gelu_backward
///         arguments as of gelu; in/2 (1 + erf(in / sqrt(2)))
///     split_heads(lane, q, k, v, in, R, H, D)
///         q, k, v (R,H,D) = the three parts of each head of in (R,H,3,D)
///     join_heads(lane, d_in, d_q, d_k, d_v, R, H, D, accumulate)
///         d_in (R,H,3,D) = or += the gradients of the parts (R,H,D)
///     swiglu_forward(lane, out, gate, up, n)
///         out = silu(gate) up
///     swiglu_backward(lane, d_gate, d_up, d_out, gate, up, n, add_gate, add_up)
///         d_gate, d_up, either may be null; d_gate may be d_out
///     grouped_attention_forward(lane, out, lse, q, k, v, B, T_, H, K, D, window, alibi, workspace, rate, key)
///         causal, over the last `window` keys, 0: all; with ALiBi's bias or without; scale 1/sqrt(D); q, out (B,T,H
///         D); k, v (B,T,K D), head h reads h K / H; grouped_attention_forward_workspace<T>(B, T_, H, D, window,
///         threads)
///     grouped_attention_backward(lane, d_q, d_k, d_v, d_out, q, k, v, out, lse, B, T_, H, K, D, window, alibi,
///         workspace, rate, key)
///         overwrites d_q, d_k, d_v; grouped_attention_backward_workspace<T>(B, T_, H, D, window, threads)
///     token_embedding_forward(lane, out, tokens, weight, n, C, V)
///         out (n,C) = weight[token]; errors as embedding_forward
///     token_embedding_backward(lane, d_weight, d_out, tokens, n, C, V, accumulate, workspace)
///         as embedding_backward; token_embedding_backward_workspace<T>(n, C, V)
///     prefix_forward(lane, out, rows, wpe, B, T_, C, P)
///         out (B,T,C): positions p < P of each sample are rows[p] + wpe[p], the others are left; wpe may be null; P at
///         most T
///     prefix_backward(lane, d_rows, d_out, B, T_, C, P, accumulate)
///         d_rows (P,C) = sum over samples, ascending, of d_out at p
///     targets_behind(lane, out, targets, B, T_, P)
///         out (B,T) = targets, -1 at positions below P
///     mean_squared_error_forward(lane, loss, a, b, n, workspace)
///         loss () = mean of (a - b)^2; mean_squared_error_workspace<T>(n)
///     mean_squared_error_backward(lane, d_a, d_loss, a, b, n, accumulate)
///         d_a (n); for d_b, exchange a and b
///
/// A user's device has all members from rms_norm_forward on, or none of them. Cuda lacks prefix_... and targets_behind.
///
/// Attention dropout (rate > 0) decides on probability (h, t, s) of batch row b by draw
/// (h T + t) T + s of the key whose sample is key.sample + b.
///
/// \code
/// template <class Device>  // c = a b, of (n, n) matrices on the device
/// void multiply(Device& device, float* c, const float* a, const float* b, std::int64_t n) {
///   using Kernels = nn::Kernels<Device>;
///   constexpr auto no = nn::Transpose::no;
///   typename Device::Lane lane(device, "multiply");
///   const auto space = device.allocate(
///       Kernels::template gemm_workspace<float>(no, no, n, n, n, lane.threads()), "multiply");
///   lane.submit([&](auto& own) {
///     Kernels::template gemm<float>(own, no, no, n, n, n, 1, a, n, b, n, 0, c, n, space.data());
///   });
///   lane.synchronize();
/// }
/// \endcode
template <class Device>
struct Kernels {
  static_assert(sizeof(Device) == 0,
                "reef::nn: the kernels of this device are not included.\n"
                "  fix: #include <reef/nn/host.hpp> for device::Host, or, in a .cu file, "
                "<reef/nn/cuda.cuh> for device::Cuda.");
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
