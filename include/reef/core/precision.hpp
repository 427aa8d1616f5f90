#pragma once

#include <concepts>

#include <reef/core/bfloat16.hpp>
#include <reef/core/element.hpp>
#include <reef/core/policy_tag.hpp>

namespace reef {
inline namespace v0 {
namespace precision {

/// Parameters, activations, gradients and sums of 4 bytes: the neutral policy of the axis.
struct Fp32 {
  using policy_tag = PrecisionTag;
  using type = float;
};

/// Parameters, activations and their gradients of 2 bytes, for half the memory and, where the
/// processor multiplies them, twice the speed. Sums, the gradients of parameters, statistics and losses
/// have 4 bytes; so have the master weights that an optimizer keeps and rounds to the parameters.
///
/// Source: Kalamkar et al., A study of bfloat16 for deep learning training, arXiv 1905.12322;
/// Micikevicius et al., Mixed precision training, arXiv 1710.03740, section 3.1 (master weights).
struct Bf16 {
  using policy_tag = PrecisionTag;
  using type = Bfloat16;
};

/// All numbers of 8 bytes: for references, not for speed.
struct Fp64 {
  using policy_tag = PrecisionTag;
  using type = double;
};

/// The precision Weights, but with parameters' gradients of 2 bytes, in the sum over micro-batches and in messages.
/// The gradient of a micro-batch is computed in fp32, added in fp32 and rounded; ranks' gradients are added in fp32.
///
/// | saves  | 2 bytes of gradient a weight; with weights of bf16 as many in comm buffers; half of the    |
/// |        | bytes sent to the owners of shards                                                        |
/// | costs  | a sum of k micro-batches is rounded k times, to 8 bits: from some hundred on small         |
/// |        | gradients are lost; and the fp32 gradient of one segment at a time                         |
/// | where  | optimizers whose rounds overlap: R3 refuses the others                                     |
///
/// \code
/// using Precision = precision::Bf16Gradients<precision::Fp32>;  // a policy of a Trainer
/// static_assert(std::same_as<precision::gradient_t<Precision>, Bfloat16>);
/// \endcode
template <class Weights = Bf16>
  requires std::same_as<sum_t<typename Weights::type>, float>
struct Bf16Gradients {
  using policy_tag = PrecisionTag;
  using type = typename Weights::type;
  using gradient = Bfloat16;
};

namespace detail {

template <class P>
struct GradientOf {
  using type = sum_t<typename P::type>;
};
template <class P>
  requires requires { typename P::gradient; }
struct GradientOf<P> {
  using type = typename P::gradient;
};

}  // namespace detail

/// The type in which gradients of parameters are kept and sent: P::gradient, or the type in which they are computed.
template <class P>
using gradient_t = typename detail::GradientOf<P>::type;

}  // namespace precision
}  // namespace v0
}  // namespace reef
