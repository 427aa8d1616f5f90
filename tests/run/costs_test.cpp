#include <reef/run/costs.hpp>

#include <gtest/gtest.h>

#include <vector>

#include <reef/graph/estimate.hpp>
#include <reef/run/instructions.hpp>

#include "two_layer_dag.hpp"

namespace reef::test {

/// Four layers that take 1, 2, 3 and 4 s forward, and ten times that back.
profile::Profile profile_of(const graph::Dag& dag) {
  profile::Profile result = graph::estimate(dag, {100, 0, 1e6});
  double seconds = 0;
  for (profile::OperatorProfile& entry : result.operators) {
    entry.forward_s = ++seconds;
    entry.backward_s = 10 * seconds;
  }
  result.copy_latency = 0.5;
  result.host_bytes_per_second = 1e3;
  return result;
}

TEST(Costs, are_the_sums_of_a_profile_over_a_segment) {
  const graph::Dag dag = chain_dag(4, 1000);
  run::StepPlan plan = run::make_step_plan(dag, {0, 1, 3, 4}, 1, 1, {1}, false);
  plan.activations = {run::Activations::keep, run::Activations::recompute, run::Activations::keep};
  run::StepBuilder builder(plan, 0, run::Purpose::training);
  run::add_micro_batches(builder);
  for (int s = 0; s < 3; ++s) run::add_forward(builder, s, 0);
  for (int s = 3; s-- > 0;) run::add_backward(builder, s, 0, 0, true);
  schedule::Program& program = builder.program;
  program.add("Evict", run::Lane::compute, 0).cost = {.bytes = 2'000'000, .copies = 1};
  const auto add_update = [&](int index, run::Place place) {
    const auto weights = program.add_storage("master", 1000, place);
    const auto verdict = program.add_storage("seen", 4, run::Place::host);
    schedule::Instruction& update = program.add("Update", run::Lane::update, index);
    update.reads = {{verdict, 0}};
    update.writes = {{weights, 1}};
    update.cost.bytes = 3000;
  };
  add_update(0, run::Place::device);
  add_update(1, run::Place::host);
  run::set_costs(program, plan, profile_of(dag));
  double again = 0;
  for (int node = 1; node < 3; ++node) {
    if (plan.segments[1].plan(node).recomputed) again += node + 1;
  }
  const auto seconds = [&](const char* kind, int index) {
    for (const schedule::Instruction& i : program.round) {
      if (i.kind == kind && i.index == index) return i.cost.seconds;
    }
    return -2.0;
  };
  EXPECT_EQ(seconds("Forward", 0), 1);
  EXPECT_EQ(seconds("Forward", 1), 2 + 3);
  EXPECT_EQ(seconds("Forward", 2), 4);
  EXPECT_EQ(seconds("Backward", 1), 20 + 30);
  EXPECT_EQ(seconds("Recompute", 1), again);
  EXPECT_EQ(seconds("Evict", 0), -1) << "copies are as fast as the machine's link";
  EXPECT_EQ(seconds("Update", 0), -1) << "as fast as the device's memory";
  EXPECT_EQ(seconds("Update", 1), 3000 / 1e3) << "as fast as that of the host";
  EXPECT_EQ(run::machine_of(profile_of(dag)).copy_bytes_per_second, 1e6);
  EXPECT_EQ(run::machine_of(profile_of(dag)).copy_latency, 0.5);

  const std::vector<Seconds> durations = run::durations(program, plan, profile_of(dag));
  ASSERT_EQ(durations.size(), program.round.size());
  for (std::size_t i = 0; i < durations.size(); ++i) {
    const schedule::Instruction& instruction = program.round[i];
    EXPECT_EQ(durations[i], instruction.kind == "Evict" ? 0 : std::max(instruction.cost.seconds, 0.0)) << instruction.text();
  }

  const graph::Dag other = chain_dag(4, 1001);
  EXPECT_THROW(run::set_costs(program, plan, profile_of(other)), OptionError);
}

}  // namespace reef::test
