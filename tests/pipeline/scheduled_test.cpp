// Timetables of random stages against the model that they stand for, and what stages wait for, in virtual time.

#include <reef/pipeline/scheduled.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/pipeline/three_slot.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/schedule/simulate.hpp>

#include "../run/two_layer_dag.hpp"

namespace reef::test {
namespace {

/// Draws a plan of one replica, and what its segments and links take.
class RandomStages {
public:
  explicit RandomStages(std::uint64_t seed)
      : random_(seed),
        stages(2 + static_cast<int>(random_() % 3)),
        dag(chain_dag(stages + below(5), 100)) {
    const int segments = dag.node_count();
    std::vector<int> cuts;
    for (int node = 0; node <= segments; ++node) cuts.push_back(node);
    plan = run::make_step_plan(dag, cuts, run::Topology(1, stages), 1, {1 + below(9)}, false);
    for (int s = 0; s < segments; ++s) {
      run::SegmentTimes& times = plan.segment_times.emplace_back();
      times.forward = seconds();
      times.weight_backward = seconds();
      times.backward = times.weight_backward + seconds();
      plan.activations.push_back(run::all_activations[static_cast<std::size_t>(below(4))]);
    }
    network = schedule::World::uniform(stages, {}, {});
    for (schedule::Link& link : network.links) link = {seconds(), 1e3 * (1 + below(1000))};
    plan.world = network;
  }
  RandomStages(const RandomStages&) = delete;
  RandomStages& operator=(const RandomStages&) = delete;

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  Seconds seconds() { return 1e-3 * (1 + below(100)); }

private:
  std::mt19937_64 random_;

public:
  int stages;
  graph::Dag dag;
  run::StepPlan plan{};
  schedule::World network{};
};

/// By stage, a chunk: what a unit takes forward, and back; of a segment that is computed anew, forward twice.
plan::PipelineTimes written_times(const RandomStages& drawn, int unit) {
  plan::PipelineTimes times;
  const auto stages = static_cast<std::size_t>(drawn.stages);
  times.forward.assign(stages, 0);
  times.input_backward.assign(stages, 0);
  times.weight_backward.assign(stages, 0);
  for (std::size_t s = 0; s < drawn.plan.segments.size(); ++s) {
    const auto stage = static_cast<std::size_t>(drawn.plan.stage_of_segment[s]);
    const run::SegmentTimes& segment = drawn.plan.segment_times[s];
    const run::Activations choice = drawn.plan.activations[s];
    const bool twice =
        choice == run::Activations::recompute || choice == run::Activations::recompute_and_stash;
    times.forward[stage] += unit * segment.forward;
    times.input_backward[stage] += unit * (segment.backward - segment.weight_backward);
    if (twice) times.input_backward[stage] += unit * segment.forward;
    times.weight_backward[stage] += unit * segment.weight_backward;
  }
  times.world = drawn.network;
  return times;
}

TEST(Timetables, are_those_of_the_model_in_which_a_backward_computes_anew_what_was_not_kept) {
  int recomputed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    RandomStages drawn(seed);
    const int unit = 1 + drawn.below(3);
    const int count = drawn.plan.micro_batches[0];
    for (const char* const schedule : {"gpipe", "1f1b", "zb-h1"}) {
      pipeline::detail::Timetables timetables(drawn.plan, unit);
      timetables.add(count, [&](const plan::PipelineModel&, int units) {
        return plan::pipeline_order_of(schedule, drawn.stages, units);
      });
      const run::PipelineTimetables tables = std::move(timetables).result();
      const run::Timetable& table = *tables.training.at(0);

      const int size = std::min(unit, count);
      plan::PipelineModel model{
          plan::pipeline_order_of(schedule, drawn.stages, (count + size - 1) / size)};
      model.times = written_times(drawn, size);
      for (const graph::RemoteEdge& edge : drawn.plan.remote_edges) {
        const auto stage = [&](int segment) {
          return drawn.plan.stage_of_segment[static_cast<std::size_t>(segment)];
        };
        const Bytes bytes =
            static_cast<Bytes>(size) * drawn.dag.tensor_at(edge.tensor).spec.bytes();
        (edge.gradient ? model.backward : model.forward)
            .push_back({stage(edge.from), stage(edge.to), bytes});
      }
      const std::vector<std::vector<Seconds>> ends = plan::estimate(model).task_ends;
      ASSERT_EQ(table.ends.size(), ends.size());
      for (std::size_t stage = 0; stage < ends.size(); ++stage) {
        ASSERT_EQ(table.ends[stage].size(), ends[stage].size());
        for (std::size_t task = 0; task < ends[stage].size(); ++task) {
          const auto where =
              concat("seed ", seed, ", ", schedule, ", stage ", stage, ", task ", task, " (",
                     plan::text_of(model.order.tasks[stage][task], true), ")");
          EXPECT_NEAR(table.ends[stage][task], ends[stage][task], 1e-9) << where;
          EXPECT_NEAR(table.begins[stage][task],
                      ends[stage][task] - model.times.of(model.order.tasks[stage][task]), 1e-9)
              << where;
        }
      }
      if (testing::Test::HasFailure()) return;
    }
    recomputed += static_cast<int>(std::ranges::count_if(drawn.plan.activations, run::recomputes));
  }
  EXPECT_GT(recomputed, 60);
}

/// The programs of all stages, by a policy of orders, with the times that were drawn.
template <class Policy>
std::vector<schedule::Program> programs_of(RandomStages& drawn,
                                           const typename Policy::Options& options) {
  Policy::plan(drawn.plan, options);
  std::vector<schedule::Program> programs;
  for (int rank = 0; rank < drawn.stages; ++rank) {
    run::StepBuilder builder(drawn.plan, rank, run::Purpose::training);
    using Optim = optim::Ddp<optim::AdamW>;
    Optim::reserve(builder);
    Optim::add(builder, Policy::add);
    for (schedule::Instruction& i : builder.program.round) {
      i.cost = {.seconds = 0};
      if (i.kind == run::kinds::forward || i.kind == run::kinds::backward)
        i.cost.seconds = drawn.seconds();
    }
    programs.push_back(std::move(builder.program));
  }
  return programs;
}

/// The barrier of one stage takes long, so that who does not wait for it is seen.
TEST(ThreeSlot, with_a_barrier_no_stage_goes_back_before_all_have_gone_forth_and_said_so) {
  constexpr Seconds never = std::numeric_limits<Seconds>::infinity();
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RandomStages drawn(seed);
    drawn.plan.activations.clear();
    pipeline::ThreeSlot::Options options;
    options.held = seed % 2 == 0;
    options.barrier = true;
    std::vector<schedule::Program> programs = programs_of<pipeline::ThreeSlot>(drawn, options);
    const auto stages = static_cast<std::size_t>(drawn.stages);
    const auto slow = static_cast<std::size_t>(drawn.below(drawn.stages));
    for (schedule::Instruction& i : programs[slow].round) {
      if (i.kind == pipeline::kinds::forwards_barrier) i.cost.seconds = 100;
    }
    std::vector<Seconds> first_back(stages, never);
    std::vector<Seconds> passed(stages, never);
    Seconds last_forth = 0;
    for (const schedule::SimulatedSpan& span :
         schedule::simulate(programs, drawn.network, 1).spans) {
      const auto rank = static_cast<std::size_t>(span.rank);
      const std::string_view kind = programs[rank].round[span.instruction].kind;
      if (kind == run::kinds::forward) last_forth = std::max(last_forth, span.end);
      if (kind == run::kinds::backward) first_back[rank] = std::min(first_back[rank], span.begin);
      if (kind == pipeline::kinds::forwards_barrier) passed[rank] = span.end;
    }
    EXPECT_GT(last_forth, 0);
    for (std::size_t rank = 0; rank < stages; ++rank) {
      const std::string where = concat("seed ", seed, ", stage ", rank, " of ", stages,
                                       ", that of the slow barrier is ", slow);
      EXPECT_LT(passed[rank], never) << where << ": there is no barrier";
      EXPECT_LT(first_back[rank], never) << where << ": nothing goes back";
      EXPECT_GE(first_back[rank], last_forth) << where;
      EXPECT_GE(first_back[rank], passed[rank]) << where;
    }
    EXPECT_GE(passed[slow], 100);
  }
}

}  // namespace
}  // namespace reef::test
