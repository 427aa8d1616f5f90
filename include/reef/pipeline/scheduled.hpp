#pragma once

#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/policy.hpp>
#include <reef/core/text.hpp>
#include <reef/pipeline/concept.hpp>
#include <reef/pipeline/detail/program_writer.hpp>
#include <reef/pipeline/detail/timetables.hpp>
#include <reef/pipeline/detail/versioned_weights.hpp>
#include <reef/pipeline/kinds.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/transfers.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// The options of pipeline policies that are Scheduled, given as TrainerOptions::pipeline.
struct ScheduledOptions {
  /// The number of micro-batches that an order of tasks counts as one unit; 0: all that a copy of the model has. A
  /// stage runs a unit's micro-batches segment by segment: if its segments are swapped, it loads each once per unit and
  /// direction. Filling and draining the pipeline takes as many times longer.
  int unit = 1;
};

/// A pipeline policy that is defined by an order of tasks for each stage, from which everything else follows. A model
/// may be cut anywhere; tensors between stages are sent without blocking, in the order of production, through rings of
/// buffers (slots) in host memory.
///
/// An order counts units of ScheduledOptions::unit micro-batches, of which the last may have fewer:
///
///     task of chunk c and unit u:  for each segment s of c:  for each micro-batch j of u:  Forward(s, j), or Backward
///
/// \code
/// struct Mine : pipeline::Scheduled<Mine> {
///   static plan::PipelineOrder order(int stages, int micro_batches) {
///     return plan::one_f_one_b_order(stages, micro_batches);
///   }
/// };
/// static_assert(pipeline::PipelinePolicy<Mine>);
/// \endcode
///
/// | Policy | the derived class: has `order(stages, units)`, for any number of units, or `order(model, units,       |
/// |        | options)`, which uses the times and links of a model; if a stage has several chunks also              |
/// |        | `stage_of_chunk(stages, options)`; and if it updates within a step `weight_versions(stages, options)` |
/// |        | (run::WeightVersions)                                                                                 |
/// | links  | messages are ordered by TrainerOptions::network, if that is given; else as if they took no time       |
/// | bits   | those of Single, for every order that updates once a step: gradients of parameters are folded in      |
/// |        | ascending micro-batch order, those of tensors by graph::remote_edges                                  |
/// | memory | as many activations, of units, as the order keeps at one time; slots as in the asynchronous model     |
/// | errors | OptionError if the order and the cut of the model have different stages, if the order is invalid      |
/// |        | (plan::PipelineOrder::validate), or if a unit is below 0; ScheduleError if stages would wait for each |
/// |        | other in a cycle                                                                                      |
template <class Policy>
struct Scheduled {
  using policy_tag = PipelineTag;
  using Options = ScheduledOptions;
  static constexpr bool spans_stages = true;

  template <class PolicyOptions>
  static void plan(run::StepPlan& plan, const PolicyOptions& options) {
    detail::Timetables timetables(plan, options.unit);
    for (const int count : plan.micro_batches) {
      timetables.add(count, [&](const plan::PipelineModel& model, int units) {
        if constexpr (requires { Policy::order(model, units, options); }) {
          return Policy::order(model, units, options);
        } else {
          return Policy::order(plan.topology.stages, units);
        }
      });
    }
    plan.timetables = std::move(timetables).result();
    if constexpr (requires { Policy::weight_versions(plan.topology.stages, options); }) {
      plan.weight_versions = Policy::weight_versions(plan.topology.stages, options);
      if (plan.weight_versions.within_a_step()) detail::require_drained(plan);
    }
    for (const auto& timetable : plan.timetables.training) {
      if (timetable->splits()) plan.split_backwards();
    }
  }

  static void add(run::StepBuilder& builder) {
    int first = run::add_micro_batches(builder);
    const auto& by_replica =
        builder.trains() ? builder.plan.timetables.training : builder.plan.timetables.evaluation;
    const auto [begin, end] = builder.plan.folds_of(builder.rank());
    if (by_replica.size() < static_cast<std::size_t>(end)) {
      throw ScheduleError("reef::pipeline::Scheduled: the plan has no timetables.\n  why: plan() of the policy makes "
                          "them.\n  fix: a policy that delegates add() to another delegates plan() too.");
    }
    for (int fold = begin; fold < end; ++fold) {
      const run::Timetable& timetable = *by_replica[static_cast<std::size_t>(fold)];
      detail::ProgramWriter(builder, timetable, first, fold - begin).run();
      first += timetable.micro_batches;
    }
  }

  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const Options& /*none*/) {
    using Communication = typename Handlers::Communication;
    const auto name_of = [&context](const schedule::Instruction& i) {
      const graph::RemoteEdge& edge =
          context.plan().remote_edges[static_cast<std::size_t>(i.index)];
      return concat(schedule::name_of(i.traffic), " ", i.index, " '",
                    context.plan().dag->tensor_at(edge.tensor).name, "' of micro-batch ", i.micro_batch);
    };
    handlers.on_lane(kinds::forwards_done, [&context](const schedule::Instruction& i) {
      return [token = context.template at<double>(i.writes.at(0))](typename Handlers::Lane& lane) {
        lane.fill_zero(token, sizeof(double));
      };
    });
    handlers.on_wire(kinds::forwards_barrier, [&context](const schedule::Instruction& i) -> Communication {
      return context.template all_gather<double>("barrier behind forwards", i);
    });
    handlers.on_wire(kinds::send, [&context, name_of](const schedule::Instruction& i) -> Communication {
      return context.send(name_of(i), i);
    });
    handlers.on_wire(kinds::receive, [&context, name_of](const schedule::Instruction& i) -> Communication {
      return context.receive(name_of(i), i);
    });
  }

  static void hash(Hash& hash, const Options& options) {
    hash.add(options.unit);
  }
};

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
