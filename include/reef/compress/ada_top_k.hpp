#pragma once

#include <reef/codec/dense.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/compress/channels.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// Top-k of tensors between stages, with a ratio for each link: no link takes longer than the slowest does at the
/// codec's ratio, and none loses more than it must for that. Gradients on the way back have the mask of the tensors on
/// the way forward, whatever Options::one_mask says.
///
/// \code
/// compress::AdaTopK::Options options;
/// options.network = schedule::World::uniform(4, {}, {.latency = 0.01, .bytes_per_second = 1e7});
/// options.activation.ratio = 10;
/// using MyTrainer = Trainer<pipeline::OneFOneB<>, compress::AdaTopK>;
/// \endcode
///
/// | ratios | plan::adatopk, of what a link carries of a micro-batch; an index counted as 2 bytes. With `replan` also    |
/// |        | later, of links as they are then; a tensor of bf16 takes 4 bytes a number then where all are sent          |
/// | errors | OptionError without a network, `replan` or `choose` by step, or for a network of another number of ranks                    |
/// | paper  | selects anew on the way back: Channels<Activation<TopK>, ActivationGradient<TopK>> with a network. A small |
/// |        | GPT does not learn by that: bench/results/compress_frontier.md                                            |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 5.
struct AdaTopK : Channels<Activation<codec::TopK>, ActivationGradient<codec::Dense>> {
  static void plan(run::StepPlan& plan, Options options) {
    if (!options.network && !options.replan.is_on() && !options.choose.is_by_step()) {
      throw OptionError("reef::compress::AdaTopK: there is no network.\n  why: ratios follow what links take.\n"
                        "  fix: options.compress.network, measured or as a schedule::World; or replan.every, to measure it "
                        "before the first step and later; compress.choose, by step; or Channels with TopK, whose ratio is one for all.");
    }
    options.one_mask = true;
    Channels::plan(plan, options);
  }
};

static_assert(CompressorPolicy<AdaTopK>);

}  // namespace compress
}  // namespace v0
}  // namespace reef
