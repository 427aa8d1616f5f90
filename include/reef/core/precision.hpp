#pragma once

#include <concepts>

#include <reef/core/bfloat16.hpp>
#include <reef/core/element.hpp>
#include <reef/core/policy_tag.hpp>

namespace reef {
inline namespace v0 {
namespace precision {

/// The precision policy of fp32 parameters, activations, gradients and sums, of 4 bytes: a Trainer's default.
struct Fp32 {
  using policy_tag = PrecisionTag;
  using type = float;
};

/// The precision policy of bf16 parameters, activations and gradients of activations, of 2 bytes: half the memory and,
/// where the processor multiplies bf16, twice the speed. Sums, the gradients of parameters, statistics, losses, and the
/// master weights that an optimizer keeps and rounds to the parameters are fp32.
///
/// Source: Kalamkar et al., A study of bfloat16 for deep learning training, arXiv 1905.12322;
/// Micikevicius et al., Mixed precision training, arXiv 1710.03740, section 3.1 (master weights).
struct Bf16 {
  using policy_tag = PrecisionTag;
  using type = Bfloat16;
};

/// The precision policy of fp64 for all numbers, of 8 bytes: for reference results, not for speed.
struct Fp64 {
  using policy_tag = PrecisionTag;
  using type = double;
};

/// The precision policy Weights with bf16 gradients of parameters, in sums over micro-batches and in messages. The
/// gradient of a micro-batch is computed in fp32, added in fp32 and rounded; ranks' gradients are added in fp32.
///
/// | saves | 2 bytes of gradient for each weight; with bf16 weights 2 bytes more in communication         |
/// |       | buffers; half of the bytes sent to the owners of shards                                      |
/// | costs | a sum over k micro-batches is rounded k times, to 8 bits: small gradients are lost from k of |
/// |       | some hundred on; also memory for the fp32 gradient of one segment at a time                  |
/// | where | optimizers whose communication overlaps; others are refused by rule R3 of trainer/rules.hpp  |
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

/// The type in which gradients of parameters are stored and sent: P::gradient, or else the type of their computation.
template <class P>
using gradient_t = typename detail::GradientOf<P>::type;

}  // namespace precision
}  // namespace v0
}  // namespace reef
