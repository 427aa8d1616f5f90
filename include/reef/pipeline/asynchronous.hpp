#pragma once

#include <cstddef>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/run/weight_versions.hpp>

/// \file
/// Pipelines that update weights within a step, so that no stage waits for the others between updates. Their order is
/// 1F1B; the backward of a micro-batch uses the weights of its forward, so a stage keeps several versions
/// (run::WeightVersions). A step is a run of micro-batches after which the pipeline is empty: then weights are saved
/// and evaluated.
///
/// The facts of both policies of this file, PipeDream and TwoBw:
///
/// | with   | an optimizer that updates within a step (Ddp, Zero1), one replica, NonFinite::ignore and no clipping   |
/// | ties   | all stages that use a parameter use the version of the stage of its first use                          |
/// | rule   | the update rule's step number t counts updates, also in a checkpoint; the learning rate is that of the |
/// |        | step                                                                                                   |
/// | scale  | an update divides by the loss weights of its own micro-batches                                         |
/// | swap   | stages that swap keep versions in host memory, and the device has slots as in other pipelines          |
/// | proof  | a version is a storage and the number of its writes: an update between a micro-batch's forward and     |
/// |        | backward that overwrites the weights which both read is refused like any other race                    |

namespace reef {
inline namespace v0 {
namespace pipeline {

/// A pipeline that updates the weights of a stage after every backward: theta(k + 1) = theta(k) - step(gradient of
/// micro-batch k), by the rule's step. Stage r of p computes micro-batch j with version max(0, j - (p - 1 - r)).
///
/// \code
/// using MyTrainer = Trainer<pipeline::PipeDream, optim::Ddp<optim::Momentum>>;
/// MyTrainer::Options options;
/// options.topology = run::Topology(1, 4);
/// options.micro_batches = {256};  // and as many updates, between one drain and the next
/// options.non_finite = optim::NonFinite::ignore;
/// options.clip_norm = 0;
/// \endcode
///
/// | time   | (m + p - 1)(f + b) for m updates on p stages; f, b: a stage's forward and backward time |
/// | memory | p - r versions of the weights on stage r, and activations of p - r micro-batches        |
/// | source | Narayanan et al., PipeDream, SOSP 2019, section 3.3 (weight stashing, no vertical sync) |
struct PipeDream : Scheduled<PipeDream> {
  static constexpr bool updates_within_a_step = true;

  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::one_f_one_b_order(stages, micro_batches);
  }
  static run::WeightVersions weight_versions(int stages, const ScheduledOptions& /*none*/) {
    run::WeightVersions versions{1, {}};
    for (int stage = 0; stage < stages; ++stage) versions.kept.push_back(stages - stage);
    return versions;
  }
};

/// The options of the pipeline TwoBw, given as TrainerOptions::pipeline.
struct TwoBwOptions : ScheduledOptions {
  /// The number of micro-batches of an update, at least the number of stages; 0: as many as stages.
  int micro_batches_per_update = 0;
};

/// A pipeline that updates after every m = micro_batches_per_update micro-batches, with their gradients at the version
/// before: theta(k + 1) = theta(k) - step(gradient at theta(k - 1)). All stages are one update behind, so that each
/// keeps only two versions.
///
/// \code
/// using MyTrainer = Trainer<pipeline::TwoBw, optim::Ddp<optim::AdamW>>;
/// MyTrainer::Options options;
/// options.topology = run::Topology(1, 4);
/// options.micro_batches = {64};
/// options.pipeline.micro_batches_per_update = 8;  // 8 updates a step
/// options.non_finite = optim::NonFinite::ignore;
/// options.clip_norm = 0;
/// \endcode
///
/// | time   | as PipeDream                                                                                     |
/// | memory | two versions of the weights, and activations of p - r micro-batches on stage r of p              |
/// | errors | OptionError for fewer micro-batches per update than stages: stages would wait for others         |
/// | source | Narayanan et al., Memory-efficient pipeline-parallel DNN training, arXiv 2006.09503, section 3.1 |
struct TwoBw : Scheduled<TwoBw> {
  using Options = TwoBwOptions;
  static constexpr bool updates_within_a_step = true;

  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::one_f_one_b_order(stages, micro_batches);
  }
  static run::WeightVersions weight_versions(int stages, const Options& options) {
    const int every = options.micro_batches_per_update > 0 ? options.micro_batches_per_update : stages;
    if (options.micro_batches_per_update < 0 || every < stages) {
      throw OptionError("reef::pipeline::TwoBw: micro_batches_per_update is ",
                        options.micro_batches_per_update, " of ", stages,
                        " stages.\n  why: a stage would begin with weights that are not there yet.\n"
                        "  fix: as many as stages or more, or 0 for as many.");
    }
    return {every, std::vector<int>(static_cast<std::size_t>(stages), 2)};
  }
  static void hash(Hash& hash, const Options& options) {
    Scheduled::hash(hash, options);
    hash.add(options.micro_batches_per_update);
  }
};

static_assert(PipelinePolicy<PipeDream> && PipelinePolicy<TwoBw>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
