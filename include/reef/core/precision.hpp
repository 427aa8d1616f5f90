#pragma once

#include <reef/core/policy_tag.hpp>

namespace reef::inline v0::precision {

/// Parameters, activations, gradients and sums of 4 bytes. The neutral element of its axis.
struct Fp32 {
  using policy_tag = PrecisionTag;
  using type = float;
};

/// Everything in 8 bytes: for references, not for speed.
struct Fp64 {
  using policy_tag = PrecisionTag;
  using type = double;
};

}  // namespace reef::inline v0::precision
