#pragma once

#include <reef/codec/concept.hpp>
#include <reef/schedule/program.hpp>

/// \file
/// Types that name the codec for one sort of message each (activations, gradients, ...), the arguments of
/// compress::Channels.
///
/// \code
/// #include <reef/codec/blockwise8.hpp>
/// using Halfway = compress::Activation<codec::Blockwise8>;
/// static_assert(Halfway::traffic == schedule::Traffic::activation);
/// \endcode

namespace reef {
inline namespace v0 {
namespace compress {

/// The codec of activations sent between pipeline stages, on the way forward.
template <codec::any_codec C>
struct Activation {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::activation;
};

/// The codec of the gradients of activations sent between pipeline stages, on the way back.
template <codec::any_codec C>
struct ActivationGradient {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::activation_gradient;
};

/// The codec of parameters' gradients on the way to the ranks that own them, and of their sums on the way back
/// if an optimizer sends these to all ranks.
template <codec::any_codec C>
struct Gradient {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::gradient;
};

/// The codec of weights on the way from the ranks that own them to the others.
template <codec::any_codec C>
struct Parameter {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::parameter;
};

/// The codec of pseudo-gradients, the weight differences of ranks that step on their own: for optim::DiLoCo.
template <codec::any_codec C>
struct PseudoGradient {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::pseudo_gradient;
};

}  // namespace compress
}  // namespace v0
}  // namespace reef
