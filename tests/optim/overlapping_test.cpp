// The programs of optimizers whose rounds overlap, as plain data: no rank runs here.

#include <reef/optim/acco_wp.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/dpu_predicted.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/single.hpp>
#include <reef/run/staging.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/verify.hpp>

#include "../run/two_layer_dag.hpp"

namespace reef::test {

namespace {

using run::Purpose;
using schedule::Program;

template <class Optim>
run::StepPlan overlapping_plan(const graph::Dag& dag, int ranks, std::vector<int> micro_batches,
                               int virtual_ranks = 1, bool discrete = false) {
  run::StepPlan plan = plan_of(dag, ranks, std::move(micro_batches), virtual_ranks, discrete);
  if constexpr (optim::overlapping_policy<Optim>) {
    plan.phases_per_step = Optim::phases_per_step;
    plan.own_master = true;
  }
  return plan;
}

template <class Optim>
std::vector<Program> programs_of(const run::StepPlan& plan, Purpose purpose = Purpose::training) {
  std::vector<Program> programs;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    run::StepBuilder builder(plan, rank, purpose);
    Optim::reserve(builder);
    Optim::add(builder, pipeline::Single::add);
    programs.push_back(plan.discrete ? run::stage_transfers(builder.program) : builder.program);
  }
  return programs;
}

template <class Optim>
class OverlappingPrograms : public testing::Test {};

using Policies = testing::Types<optim::Dpu<optim::AdamW, 2>, optim::DpuPredicted<optim::AdamW>,
                                optim::AccoWp<optim::AdamW>, optim::Acco<optim::AdamW>>;
TYPED_TEST_SUITE(OverlappingPrograms, Policies);

Bytes sent_by(const Program& program) {
  Bytes bytes = 0;
  for (const auto& instruction : program.round) {
    for (const auto& message : instruction.sends) bytes += message.bytes;
  }
  return bytes;
}

}  // namespace

TYPED_TEST(OverlappingPrograms, are_proved_for_every_purpose_on_any_number_of_ranks) {
  for (const Element element : {Element::float32, Element::bfloat16}) {
    graph::Dag dag = chain_dag(4, 9000);
    dag.element = element;
    for (const bool discrete : {false, true}) {
      for (const Purpose purpose : {Purpose::training, Purpose::evaluation, Purpose::prologue,
                                    Purpose::warm_up, Purpose::gather_committed}) {
        for (int ranks = 1; ranks <= 4; ++ranks) {
          const std::vector<int> counts{2, 1, 3, 1};
          const std::vector<int> first(counts.begin(), counts.begin() + ranks);
          const auto together = overlapping_plan<TypeParam>(dag, ranks, first, 1, discrete);
          EXPECT_NO_THROW(schedule::verify(programs_of<TypeParam>(together, purpose)));
          const auto alone = overlapping_plan<TypeParam>(dag, 1, first, ranks, discrete);
          EXPECT_NO_THROW(schedule::verify(programs_of<TypeParam>(alone, purpose)));
        }
      }
    }
  }
}

TYPED_TEST(OverlappingPrograms, hide_their_communication_under_the_micro_batches_of_a_phase) {
  constexpr int k = 3;
  const graph::Dag dag = chain_dag(4, 24 * run::norm_block);  // equal shards
  constexpr int phases = TypeParam::phases_per_step;
  const double micro_batch = 4 * 300.0;  // operations
  const double compute = phases * k * micro_batch;
  for (const bool discrete : {false, true}) {  // a device with memory of its own, and fast copies
    const auto plan = overlapping_plan<TypeParam>(dag, 2, {k, k}, 1, discrete);
    const auto programs = programs_of<TypeParam>(plan);
    const auto sent = static_cast<double>(sent_by(programs[0]));
    for (const double ratio : {0.25, 0.5, 1.0, 2.0, 4.0}) {
      // A second an operation; what a phase sends takes `ratio` micro-batches.
      const double communication = ratio * micro_batch * phases;
      const auto world =
          schedule::World::uniform(2, {.flops_per_second = 1}, {0, sent / communication});
      const double step = schedule::simulate(programs, world, 4).step;
      EXPECT_LE(step, 1.001 * std::max(compute, communication)) << ratio << ", " << discrete;
      EXPECT_GE(step, 0.999 * std::max(compute, communication)) << ratio << ", " << discrete;
    }
  }
}

TYPED_TEST(OverlappingPrograms, that_adapt_compute_for_as_long_as_they_communicate) {
  const graph::Dag dag = chain_dag(4, 24 * run::norm_block);
  const double micro_batch = 4 * 300.0;  // operations, a second each
  constexpr int phases = TypeParam::phases_per_step;
  for (const bool discrete : {false, true}) {
    for (const int most : {0, 3}) {
      auto plan = overlapping_plan<TypeParam>(dag, 2, {1, 1}, 1, discrete);
      plan.adapts = true;
      plan.max_micro_batches = most;
      const auto programs = programs_of<TypeParam>(plan);
      EXPECT_NO_THROW(schedule::verify(programs));
      // A phase communicates for four micro-batches and a half: five begin, or as many as may.
      const double phase = 4.5 * micro_batch;
      const double sent = static_cast<double>(sent_by(programs[0])) / phases;
      const auto world = schedule::World::uniform(2, {.flops_per_second = 1}, {0, sent / phase});
      const auto found = schedule::simulate(programs, world, 4);
      const double expected = most == 0 ? 5 * micro_batch : phase;
      EXPECT_NEAR(found.step, phases * expected, 0.01 * phases * expected) << discrete << most;
      for (const auto& counts : found.trip_counts) {
        EXPECT_EQ(counts, std::vector<int>(phases, most == 0 ? 4 : most - 1)) << discrete << most;
      }
    }
  }
}

TYPED_TEST(OverlappingPrograms, send_a_reduce_scatter_and_a_gather_a_phase_as_zero1_does_a_step) {
  const graph::Dag dag = chain_dag(4, 100000);
  const auto overlapping = programs_of<TypeParam>(overlapping_plan<TypeParam>(dag, 2, {2, 2}));
  using Zero1 = optim::Zero1<optim::AdamW>;
  const auto zero1 = programs_of<Zero1>(overlapping_plan<Zero1>(dag, 2, {2, 2}));
  EXPECT_EQ(sent_by(overlapping[0]), TypeParam::phases_per_step * sent_by(zero1[0]));
}

TEST(AccoProgram, an_estimate_writes_outgoing_weights_and_nothing_else) {
  const graph::Dag dag = chain_dag(4, 9000);
  using Acco = optim::Acco<optim::AdamW>;
  const Program program = programs_of<Acco>(overlapping_plan<Acco>(dag, 2, {1, 1}))[0];
  int estimates = 0;
  for (const auto& instruction : program.round) {
    if (instruction.kind != "Estimate") continue;
    ++estimates;
    EXPECT_TRUE(instruction.accumulates.empty());
    ASSERT_EQ(instruction.writes.size(), 1U);
    EXPECT_TRUE(program.name(instruction.writes[0]).starts_with("outgoing weights"));
  }
  EXPECT_EQ(estimates, 3);  // one for each bucket
}

TEST(AccoProgram, a_micro_batch_that_reads_the_weights_of_the_other_phase_is_refused) {
  const graph::Dag dag = chain_dag(4, 9000);
  using Acco = optim::Acco<optim::AdamW>;
  auto programs = programs_of<Acco>(overlapping_plan<Acco>(dag, 2, {1, 1}));
  const auto last_forward =
      std::find_if(programs[0].round.rbegin(), programs[0].round.rend(),
                   [](const auto& instruction) { return instruction.kind == "Forward"; });
  ASSERT_EQ(last_forward->reads[0].version, 1);
  last_forward->reads[0].version = 0;
  EXPECT_THROW(schedule::verify(programs), ScheduleError);
}

}  // namespace reef::test
