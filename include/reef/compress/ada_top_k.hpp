#pragma once

#include <reef/codec/dense.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/compress/channels.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// Top-k of tensors between stages, with a ratio for each link: no link takes longer than the slowest link does at the
/// codec's ratio, and no message loses more than this requires. Gradients on the way back have the mask of the tensors
/// on the way forward, whatever Options::one_mask is.
///
/// \code
/// using MyTrainer = Trainer<pipeline::OneFOneB<>, compress::AdaTopK>;
/// MyTrainer::Options options;
/// options.network = profile::Network::uniform(4, 0.01, 1e7);
/// options.compress.activation.ratio = 10;
/// \endcode
///
/// | ratios | plan::adatopk, by TrainerOptions::network, of what a link carries of a micro-batch; an index counted as  |
/// |        | 2 bytes. With `replan` also later, of links as they are then; a tensor of bf16 takes 4 bytes a number then |
/// |        | where all are sent                                                                                        |
/// | errors | OptionError without a network, `replan` or `choose` by step                                               |
/// | paper  | selects anew on the way back: Channels<Activation<TopK>, ActivationGradient<TopK>> with `adapt`. A small   |
/// |        | GPT does not learn by that: bench/results/compress_frontier.md                                            |
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
