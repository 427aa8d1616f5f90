#pragma once

#include <reef/codec/dense.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/compress/channels.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// Top-k compression of tensors between pipeline stages, with a ratio for each link: no link takes longer than the
/// slowest link does at the codec's ratio, and no message loses more than this requires. Gradients on the way back have
/// the mask of the tensors on the way forward, whatever Options::one_mask is.
///
/// \code
/// using MyTrainer = Trainer<pipeline::OneFOneB<>, compress::AdaTopK>;
/// MyTrainer::Options options;
/// options.network = profile::Network::uniform(4, 0.01, 1e7);
/// options.compress.activation.ratio = 10;
/// \endcode
///
/// | ratios | plan::adatopk computes them from TrainerOptions::network and the bytes that a link carries in a    |
/// |        | micro-batch; an index counts as 2 bytes. With `replan` they are computed again from the links as   |
/// |        | measured later; a number of bf16 that is sent without a ratio then takes 4 bytes                   |
/// | errors | OptionError if there is neither a network nor `replan` nor a `choose` by step                      |
/// | paper  | selects anew on the way back: Channels<Activation<TopK>, ActivationGradient<TopK>> with `adapt`. A |
/// |        | small GPT does not learn by that: bench/results/compress_frontier.md                               |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 5.
struct AdaTopK : Channels<Activation<codec::TopK>, ActivationGradient<codec::Dense>> {
  static void plan(run::StepPlan& plan, Options options) {
    detail::require_links(plan, options, "AdaTopK");
    options.adapt = true;
    options.one_mask = true;
    Channels::plan(plan, options);
  }
};

static_assert(CompressorPolicy<AdaTopK>);

}  // namespace compress
}  // namespace v0
}  // namespace reef
