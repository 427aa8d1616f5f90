#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>
#include <reef/pipeline/asynchronous.hpp>
#include <reef/pipeline/scheduled.hpp>
#include <reef/pipeline/searched.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// The options of the pipeline Ordered, given as TrainerOptions::pipeline.
struct OrderedOptions : ScheduledOptions {
  /// Name of a schedule that plan::pipeline_order_of knows, or "searched"; empty: `order` is used.
  std::string schedule{};
  /// Order of tasks whose ranks are stages, with as many units (by default: micro-batches) as every model copy has.
  plan::PipelineOrder order{};
  int micro_batches_per_update = 0;  ///< micro-batches of an update, as in TwoBwOptions; only for the schedule "2bw"
};

/// A pipeline whose order of tasks is given when the Trainer is made: by the name of a schedule, read from a file, or
/// searched.
///
/// \code
/// Trainer<pipeline::Ordered, optim::Ddp<optim::AdamW>>::Options options;
/// options.topology = run::Topology(1, 2);
/// options.micro_batches = {2};
/// options.pipeline.order = plan::parse_pipeline_order("F0 F1 B0 B1\nF0 B0 F1 B1");
/// \endcode
///
/// | errors | OptionError: an order with another number of stages or of micro-batches |
struct Ordered : Scheduled<Ordered> {
  using Options = OrderedOptions;

  static plan::PipelineOrder order(const plan::PipelineModel& model, int micro_batches,
                                   const Options& options) {
    if (options.schedule == searched) return Searched::order(model, micro_batches, {});
    if (!options.schedule.empty()) {
      return named(options, static_cast<int>(model.times.world.machines.size()), micro_batches);
    }
    if (micro_batches == options.order.micro_batches) return options.order;
    if (options.order.tasks.empty()) {
      throw OptionError("reef::pipeline::Ordered: there is neither a schedule nor an order.\n"
                        "  fix: options.pipeline.schedule = \"1f1b\", or options.pipeline.order.");
    }
    const char* const what = options.unit == 1 ? " micro-batches" : " units of micro-batches";
    throw OptionError(
        "reef::pipeline::Ordered: the order is of ", options.order.micro_batches, what, ", but a replica has ",
        micro_batches, what,
        ".\n  fix: TrainerOptions::micro_batches, or ScheduledOptions::unit, by which it has the order's number.");
  }
  static std::vector<int> stage_of_chunk(int stages, const Options& options) {
    if (options.schedule == searched) return detail::looped(stages, 1);
    if (!options.schedule.empty()) return named(options, stages, 1).rank_of_chunk;
    return options.order.rank_of_chunk;
  }

  static run::WeightVersions weight_versions(int stages, const Options& options) {
    if (options.schedule == "pipedream") return PipeDream::weight_versions(stages, {});
    if (options.schedule == "2bw") {
      return TwoBw::weight_versions(stages, {{}, options.micro_batches_per_update});
    }
    return {};
  }

  static void hash(Hash& hash, const Options& options) {
    Scheduled::hash(hash, options);
    hash.add(options.schedule).add(plan::text_of(options.order)).add(options.micro_batches_per_update);
  }

private:
  static constexpr std::string_view searched = "searched";

  static plan::PipelineOrder named(const Options& options, int stages, int micro_batches) {
    return plan::pipeline_order_of(options.schedule, stages, micro_batches);
  }
};

static_assert(PipelinePolicy<Ordered>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
