#pragma once

#include <reef/codec/concept.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/compress/channels.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// Compresses by one codec all messages that are sent and that the codec may carry: tensors between stages and their
/// gradients, gradients and differences of outer steps, and weights if the codec sends every number and has no memory.
///
/// \code
/// using MyTrainer = Trainer<compress::Everywhere<codec::TopK>, optim::Zero1<optim::AdamW>>;
/// MyTrainer::Options options;
/// options.compress = codec::TopK{.ratio = 10};
/// options.compress.gradient.ratio = 100;
/// \endcode
///
/// | errors | those of Channels; a channel without traffic is left unencoded, and is no error |
template <codec::any_codec C>
struct Everywhere : Channels<Activation<C>, ActivationGradient<C>, Gradient<C>, Parameter<C>, PseudoGradient<C>> {
  using All = Channels<Activation<C>, ActivationGradient<C>, Gradient<C>, Parameter<C>, PseudoGradient<C>>;
  static constexpr Payload payload = Payload::dense;  // the plan says which channels are encoded

  struct Options : All::Options {
    Options(const C& codec = {}) {
      this->activation = this->activation_gradient = this->gradient = this->parameter = this->pseudo_gradient = codec;
    }
  };

  static void plan(run::StepPlan& plan, const Options& options) {
    All::plan_if(plan, options, [&plan](schedule::Traffic traffic, const auto& own) {
      return detail::travels(plan, traffic) &&
             (traffic != schedule::Traffic::parameter || detail::sends_all_numbers(own));
    });
  }
};

static_assert(CompressorPolicy<Everywhere<codec::TopK>>);

}  // namespace compress
}  // namespace v0
}  // namespace reef
