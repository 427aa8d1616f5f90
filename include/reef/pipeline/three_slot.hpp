#pragma once

#include <reef/core/hash.hpp>
#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// The options of the pipeline ThreeSlot, given as TrainerOptions::pipeline.
struct ThreeSlotOptions : ScheduledOptions {
  /// True: a link is occupied until its message has arrived, as published, so that latency counts for every
  /// micro-batch. schedule::simulate predicts these times; in a run, a send occupies its queue only until the message
  /// has left, so that a run is faster than the paper's.
  bool held = false;
  /// True: no stage runs a backward before all stages of its pipeline have run all forwards, as in DT-FM's code.
  bool barrier = false;
};

/// DT-FM's pipeline: a stage receives, computes and sends at the same time, in the order of GPipe.
///
/// \code
/// using MyTrainer = Trainer<pipeline::ThreeSlot, optim::Ddp<optim::AdamW>>;
/// MyTrainer::Options options;
/// options.topology = run::Topology(2, 4);
/// options.pipeline.held = options.pipeline.barrier = true;  // as published; by default it is GPipe
/// \endcode
///
/// | time   | that of GPipe; held, as simulated, with m micro-batches: sum of all stages and links + (m - 1) (slowest |
/// |        | forward or wire + latency + slowest backward or wire + latency)                                         |
/// | memory | activations of all m micro-batches on every stage; held: a slot for each message                        |
/// | source | Yuan et al., Decentralized training of foundation models in heterogeneous environments, arXiv           |
/// |        | 2206.01288                                                                                              |
struct ThreeSlot : Scheduled<ThreeSlot> {
  using Options = ThreeSlotOptions;

  static plan::PipelineOrder order(int stages, int micro_batches) {
    return plan::gpipe_order(stages, micro_batches);
  }

  static void plan(run::StepPlan& plan, const Options& options) {
    Scheduled::plan(plan, options);
    plan.timetables.held = options.held;
    plan.timetables.barrier = options.barrier;
  }

  static void hash(Hash& hash, const Options& options) {
    Scheduled::hash(hash, options);
    hash.add(options.held).add(options.barrier);
  }
};

static_assert(PipelinePolicy<ThreeSlot>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
