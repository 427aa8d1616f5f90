#pragma once

#include <reef/core/bfloat16.hpp>
#include <reef/core/policy_tag.hpp>

namespace reef::inline v0::precision {

/// Parameters, activations, gradients and sums of 4 bytes. The neutral element of its axis.
struct Fp32 {
  using policy_tag = PrecisionTag;
  using type = float;
};

/// Parameters, activations and their gradients of 2 bytes, for half the memory and, where the
/// processor multiplies them, twice the speed. Sums, the gradients of parameters, statistics and losses
/// have 4; so have the master weights that an optimizer keeps and rounds to the parameters.
///
/// Source: Kalamkar et al., A study of bfloat16 for deep learning training, arXiv 1905.12322;
/// Micikevicius et al., Mixed precision training, arXiv 1710.03740, section 3.1 (master weights).
struct Bf16 {
  using policy_tag = PrecisionTag;
  using type = Bfloat16;
};

/// Everything in 8 bytes: for references, not for speed.
struct Fp64 {
  using policy_tag = PrecisionTag;
  using type = double;
};

}  // namespace reef::inline v0::precision
